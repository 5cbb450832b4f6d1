//! Pictures of dashboards, drawn from what Prometheus answered. Grafana draws the same JSON; this shows it to a reader.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::grafana::{Dashboard, Draw, Panel, labels, meanings};
use super::live::Answers;
use super::prometheus::Answer;

const COLUMN: f64 = 58.0;
const ROW: f64 = 34.0;
const GAP: f64 = 6.0;
const COLOURS: [&str; 12] = [
    "#2f7d32", "#c77700", "#b3261e", "#1565c0", "#6a3fa0", "#00838f", "#8d6e63", "#9e9d24", "#ad1457", "#455a64",
    "#5e8f3a", "#d9822b",
];

/// Where a panel stands, in pixels.
#[derive(Clone, Copy)]
struct Frame {
    x: f64,
    y: f64,
    w: f64,
    h: f64,
}

/// A drawing that grows, and the names that it writes instead of others.
pub struct Picture<'a> {
    out: String,
    names: &'a [(String, String)],
    from: f64,
    to: f64,
}

impl<'a> Picture<'a> {
    /// The time that is shown; names in labels that are written otherwise.
    pub fn new(from: f64, to: f64, names: &'a [(String, String)]) -> Picture<'a> {
        Picture { out: String::new(), names, from, to }
    }

    /// The whole of a dashboard.
    pub fn dashboard(mut self, dashboard: &Dashboard, answers: &[Answers]) -> String {
        let places = dashboard.places();
        let bottom = places.iter().map(|(_, panel, _, y)| y + panel.map_or(1, |p| p.size.1)).max().unwrap_or(0);
        let (width, height) = (24.0 * COLUMN + 2.0 * GAP, f64::from(bottom) * ROW + 64.0);
        self.text(GAP + 4.0, 26.0, 18, "start", "600", "#1f2328", dashboard.title);
        self.text(GAP + 4.0, 46.0, 12, "start", "400", "#57606a", dashboard.says);
        let mut answers = answers.iter();
        for (heading, panel, x, y) in places {
            let (left, top) = (GAP + f64::from(x) * COLUMN, 56.0 + f64::from(y) * ROW);
            if let Some(heading) = heading {
                self.text(left + 4.0, top + 22.0, 14, "start", "600", "#1f2328", heading);
            } else if let (Some(panel), Some(answers)) = (panel, answers.next()) {
                let (w, h) = (f64::from(panel.size.0) * COLUMN - GAP, f64::from(panel.size.1) * ROW - GAP);
                self.panel(panel, answers, Frame { x: left, y: top, w, h });
            }
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#f4f5f7\"/>\n{}</svg>\n",
            self.out
        )
    }

    fn text(&mut self, x: f64, y: f64, size: u32, anchor: &str, weight: &str, colour: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\" fill=\"{colour}\">{text}</text>"
        );
    }

    fn small(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        self.text(x, y, 10, anchor, "400", "#57606a", text);
    }

    fn rect(&mut self, x: f64, y: f64, w: f64, h: f64, fill: &str) {
        let _ =
            writeln!(self.out, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" fill=\"{fill}\"/>");
    }

    fn panel(&mut self, panel: &Panel, answers: &Answers, f: Frame) {
        let _ = writeln!(
            self.out,
            "<g><title>{}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"3\" fill=\"#fff\" stroke=\"#d8dee4\"/>",
            panel.says.replace('&', "&amp;").replace('<', "&lt;"),
            f.x,
            f.y,
            f.w,
            f.h
        );
        self.text(f.x + 8.0, f.y + 17.0, 12, "start", "600", "#1f2328", panel.title);
        let body = Frame { x: f.x + 8.0, y: f.y + 26.0, w: f.w - 16.0, h: f.h - 32.0 };
        let series = self.series(panel, answers);
        match panel.draw {
            Draw::Stat => self.stat(panel, &series, body),
            Draw::Lines => self.lines(panel, &series, body, false),
            Draw::Stack => self.lines(panel, &series, body, true),
            Draw::Bars => self.bars(panel, &series, body),
            Draw::Table => self.table(&series, body),
            Draw::Heat => self.heat(panel, &series, body),
        }
        self.out.push_str("</g>\n");
    }

    /// All series of a panel by their names, in order.
    fn series(&self, panel: &Panel, answers: &Answers) -> Vec<(String, Answer)> {
        let mut all = Vec::new();
        for ((_, legend), answer) in panel.targets.iter().zip(answers) {
            for one in answer {
                let mut one = one.clone();
                for value in one.labels.values_mut() {
                    if let Some((_, name)) = self.names.iter().find(|(is, _)| is == value) {
                        value.clone_from(name);
                    }
                }
                let mut name = (*legend).to_owned();
                for label in labels(legend) {
                    let value = one.labels.get(label).map_or("", String::as_str);
                    name = name.replace(&format!("{{{{{label}}}}}"), value);
                }
                all.push((name, one));
            }
        }
        all.sort_by_key(|one| natural(&one.0));
        all
    }

    fn stat(&mut self, panel: &Panel, series: &[(String, Answer)], f: Frame) {
        let value = series.first().and_then(|(_, a)| a.points.last()).map_or(f64::NAN, |p| p.1);
        let colour = match panel.limits {
            Some((orange, red)) if orange > red => {
                if value >= orange {
                    0
                } else if value >= red {
                    1
                } else {
                    2
                }
            }
            Some((orange, red)) => {
                if value >= red {
                    2
                } else {
                    usize::from(value >= orange)
                }
            }
            None => 3,
        };
        let text = whole(value, panel.unit);
        self.text(f.x + f.w / 2.0, f.y + f.h / 2.0 + 16.0, 34, "middle", "600", COLOURS[colour], &text);
    }

    fn lines(&mut self, panel: &Panel, series: &[(String, Answer)], f: Frame, stacked: bool) {
        let plot = Frame { x: f.x + 46.0, y: f.y + 4.0, w: f.w - 52.0, h: self.legend(series, f) };
        let layers =
            if stacked { stack(series) } else { series.iter().map(|(_, a)| (a.points.clone(), Vec::new())).collect() };
        let top =
            layers.iter().flat_map(|(points, _)| points).map(|p| p.1).filter(|v| v.is_finite()).fold(0.0, f64::max);
        let step = step(top / 4.0, panel.unit);
        let top = (top / step).ceil().max(1.0) * step;
        self.grid(plot, top, step, panel.unit);
        let at = |(t, v): (f64, f64)| {
            let x = plot.x + (t - self.from) / (self.to - self.from) * plot.w;
            (x, plot.y + plot.h - v / top * plot.h)
        };
        let mut drawn = String::new();
        let colours = colours(&series.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
        for (n, (points, base)) in layers.iter().enumerate().rev() {
            let colour = colours[n];
            for piece in pieces(points) {
                let line: Vec<String> = piece.iter().map(|p| at(*p)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                if stacked {
                    let back: Vec<String> =
                        base.iter().rev().map(|p| at(*p)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                    let _ = writeln!(
                        drawn,
                        "<polygon points=\"{} {}\" fill=\"{colour}\" fill-opacity=\"0.45\"/>",
                        line.join(" "),
                        back.join(" ")
                    );
                }
                let _ = writeln!(
                    drawn,
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>",
                    line.join(" ")
                );
            }
        }
        self.out.push_str(&drawn);
    }

    /// Writes the names below, and gives the height that is left for the plot.
    fn legend(&mut self, series: &[(String, Answer)], f: Frame) -> f64 {
        let named: Vec<&str> = series.iter().map(|(name, _)| name.as_str()).filter(|n| !n.is_empty()).collect();
        let colours = colours(&named);
        let (mut x, mut lines): (f64, Vec<Vec<(usize, f64)>>) = (0.0, vec![Vec::new()]);
        for (n, name) in named.iter().enumerate() {
            let w = 22.0 + width(name, 10.0);
            if x + w > f.w && x > 0.0 {
                lines.push(Vec::new());
                x = 0.0;
            }
            lines.last_mut().unwrap().push((n, x));
            x += w;
        }
        let more = lines.len().saturating_sub(3);
        lines.truncate(3);
        let height = 13.0 * if named.is_empty() { 0.0 } else { f64::from(u32::try_from(lines.len()).unwrap()) };
        for (at, line) in (0u32..).zip(&lines) {
            let y = f.y + f.h - height + 13.0 * f64::from(at) + 9.0;
            for (n, x) in line {
                self.rect(f.x + x, y - 7.0, 8.0, 8.0, colours[*n]);
                self.small(f.x + x + 12.0, y, "start", named[*n]);
            }
        }
        if more > 0 {
            self.small(f.x + f.w, f.y + f.h, "end", "…");
        }
        f.h - height - 24.0
    }

    fn grid(&mut self, f: Frame, top: f64, step: f64, unit: &str) {
        let mut value = 0.0;
        while value <= top * 1.0001 {
            let y = f.y + f.h - value / top * f.h;
            let _ = writeln!(
                self.out,
                "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e7eaee\"/>",
                f.x,
                f.x + f.w
            );
            self.small(f.x - 5.0, y + 3.5, "end", &shown(value, unit));
            value += step;
        }
        self.times(f);
    }

    /// Seconds since the beginning, below.
    fn times(&mut self, f: Frame) {
        let step = nice((self.to - self.from) / 5.0);
        let mut t = 0.0;
        while t <= self.to - self.from {
            let x = f.x + t / (self.to - self.from) * f.w;
            self.small(x, f.y + f.h + 13.0, if t == 0.0 { "start" } else { "middle" }, &format!("{t:.0} s"));
            t += step;
        }
    }

    fn bars(&mut self, panel: &Panel, series: &[(String, Answer)], f: Frame) {
        let value = |a: &Answer| a.points.last().map_or(0.0, |p| p.1);
        let mut rows: Vec<(&str, f64)> = series.iter().map(|(name, a)| (name.as_str(), value(a))).collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        let top = rows.first().map_or(1.0, |r| r.1).max(1e-9);
        let wide = rows.iter().map(|(name, _)| width(name, 11.0)).fold(40.0, f64::max).min(f.w * 0.55);
        let high = (f.h / f64::from(u32::try_from(rows.len().max(1)).unwrap())).clamp(14.0, 24.0);
        for (n, (name, value)) in (0u32..).zip(rows) {
            let y = f.y + high * f64::from(n);
            if y + high > f.y + f.h + 2.0 {
                self.small(f.x + f.w, f.y + f.h + 3.0, "end", "…");
                break;
            }
            let room = f.w - wide - 60.0;
            self.text(f.x, y + high / 2.0 + 4.0, 11, "start", "400", "#1f2328", name);
            self.rect(f.x + wide + 8.0, y + 2.0, room, high - 4.0, "#eef1f4");
            self.rect(f.x + wide + 8.0, y + 2.0, (room * value / top).max(1.0), high - 4.0, COLOURS[3]);
            self.text(f.x + f.w, y + high / 2.0 + 4.0, 11, "end", "600", "#1f2328", &whole(value, panel.unit));
        }
    }

    fn table(&mut self, series: &[(String, Answer)], f: Frame) {
        let mut columns: Vec<&str> =
            series.first().map_or(Vec::new(), |(_, a)| a.labels.keys().map(String::as_str).collect());
        columns.push("count");
        let wide = f.w / f64::from(u32::try_from(columns.len()).unwrap());
        let x = |n: usize| f.x + wide * f64::from(u32::try_from(n).unwrap());
        for (n, name) in columns.iter().enumerate() {
            self.text(x(n), f.y + 12.0, 11, "start", "600", "#57606a", name);
        }
        for (row, (_, answer)) in (1u32..).zip(series) {
            let y = f.y + 12.0 + 20.0 * f64::from(row);
            let count = whole(answer.points.last().map_or(0.0, |p| p.1), "short");
            for (n, value) in answer.labels.values().chain([&count]).enumerate() {
                self.text(x(n), y, 12, "start", "400", "#1f2328", value);
            }
        }
    }

    /// What fell into each bucket, in slices of time.
    fn heat(&mut self, panel: &Panel, series: &[(String, Answer)], f: Frame) {
        const SLICES: usize = 40;
        let bound = |a: &Answer| a.labels.get("le").and_then(|le| le.parse::<f64>().ok()).unwrap_or(f64::INFINITY);
        let mut buckets: Vec<(f64, Vec<f64>)> = Vec::new();
        for (_, answer) in series {
            let mut sums = vec![0.0; SLICES];
            for (t, v) in answer.points.iter().filter(|p| p.1.is_finite()) {
                let at = (t - self.from) / (self.to - self.from) * SLICES as f64;
                sums[(at as usize).min(SLICES - 1)] += v;
            }
            buckets.push((bound(answer), sums));
        }
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        for n in (1..buckets.len()).rev() {
            let below = buckets[n - 1].1.clone();
            buckets[n].1.iter_mut().zip(below).for_each(|(v, b)| *v = (*v - b).max(0.0));
        }
        let top = buckets.iter().flat_map(|(_, v)| v).copied().fold(1e-9, f64::max);
        let plot = Frame { x: f.x + 52.0, y: f.y + 2.0, w: f.w - 56.0, h: f.h - 24.0 };
        let (w, h) = (plot.w / SLICES as f64, plot.h / buckets.len().max(1) as f64);
        for (n, (le, values)) in buckets.iter().enumerate() {
            let y = plot.y + plot.h - h * (n + 1) as f64;
            let name = if le.is_finite() { shown(*le, panel.unit) } else { "more".to_owned() };
            self.small(plot.x - 5.0, y + h / 2.0 + 3.5, "end", &name);
            for (slice, value) in values.iter().enumerate() {
                let x = plot.x + w * slice as f64;
                let _ = writeln!(
                    self.out,
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#c75000\" fill-opacity=\"{:.2}\"/>",
                    y + 0.5,
                    w - 0.5,
                    h - 1.0,
                    0.04 + 0.96 * (value / top).sqrt()
                );
            }
        }
        self.times(plot);
    }
}

/// As Grafana colours them: by meaning where all have one, else in turn.
fn colours(names: &[&str]) -> Vec<&'static str> {
    let named = |colour: &str| ["green", "orange", "red", "blue", "purple"].iter().position(|c| *c == colour);
    match meanings(names) {
        Some(all) => all.iter().map(|c| COLOURS[named(c).unwrap()]).collect(),
        None => (0..names.len()).map(|n| COLOURS[n % COLOURS.len()]).collect(),
    }
}

/// `b2` before `b10`.
fn natural(name: &str) -> (String, u64, String) {
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    (name[..digits].to_owned(), name[digits..].parse().unwrap_or(0), name.to_owned())
}

fn width(text: &str, size: f64) -> f64 {
    f64::from(u32::try_from(text.chars().count()).unwrap()) * size * 0.58
}

/// Values at times.
type Line = Vec<(f64, f64)>;

/// Each series on top of those before it: its line, and the line below.
fn stack(series: &[(String, Answer)]) -> Vec<(Line, Line)> {
    let key = |t: f64| (t * 1000.0).round() as i64;
    let mut below: BTreeMap<i64, (f64, f64)> =
        series.iter().flat_map(|(_, a)| &a.points).map(|(t, _)| (key(*t), (*t, 0.0))).collect();
    let mut layers = Vec::new();
    for (_, answer) in series {
        let base: Vec<(f64, f64)> = below.values().copied().collect();
        for (t, v) in answer.points.iter().filter(|p| p.1.is_finite()) {
            if let Some(sum) = below.get_mut(&key(*t)) {
                sum.1 += v;
            }
        }
        layers.push((below.values().copied().collect(), base));
    }
    layers
}

/// A line ends where values are missing.
fn pieces(points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
    let mut all: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for point in points.iter().filter(|p| p.1.is_finite()) {
        if point.0 - last > 2.5 {
            all.push(Vec::new());
        }
        last = point.0;
        all.last_mut().unwrap().push(*point);
    }
    all
}

/// 1, 2 or 5 times a power of ten, not below.
fn nice(step: f64) -> f64 {
    if step <= 0.0 || !step.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= step * 0.999).unwrap_or(10.0 * power)
}

/// The distance of lines of a grid; bytes are counted in powers of two.
fn step(least: f64, unit: &str) -> f64 {
    let unit = if unit == "bytes" && least >= 1.0 { 1024f64.powf((least.ln() / 1024f64.ln()).floor()) } else { 1.0 };
    nice(least / unit) * unit
}

/// What is counted is whole; an increase is estimated, and is not.
fn whole(value: f64, unit: &str) -> String {
    if unit == "short" { shown(value.round(), unit) } else { shown(value, unit) }
}

fn shown(value: f64, unit: &str) -> String {
    let digits = |v: f64| {
        let text = if v.abs() >= 100.0 || v.fract() == 0.0 {
            format!("{v:.0}")
        } else if v.abs() >= 10.0 {
            format!("{v:.1}")
        } else {
            format!("{v:.2}")
        };
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    let scaled = |base: f64, names: [&str; 4]| {
        let mut at = 0;
        let mut v = value;
        while v.abs() >= base && at + 1 < names.len() {
            v /= base;
            at += 1;
        }
        format!("{}{}", digits(v), names[at])
    };
    match unit {
        _ if !value.is_finite() => "–".to_owned(),
        "percentunit" => format!("{} %", digits(value * 100.0)),
        "s" if value != 0.0 && value.abs() < 0.001 => format!("{} µs", digits(value * 1e6)),
        "s" if value != 0.0 && value.abs() < 1.0 => format!("{} ms", digits(value * 1e3)),
        "s" => format!("{} s", digits(value)),
        "bytes" => scaled(1024.0, [" B", " KiB", " MiB", " GiB"]),
        "Bps" => scaled(1000.0, [" B/s", " kB/s", " MB/s", " GB/s"]),
        "ops" => format!("{}/s", digits(value)),
        "d" => format!("{} d", digits(value)),
        _ => scaled(1000.0, ["", " k", " M", " G"]),
    }
}
