//! Traces as the engines print them, and what is left of each.

use super::*;

/// The languages found, and the text with every trace reduced to its head.
fn reduced(text: &str) -> (Vec<&'static str>, String) {
    let found = find(text.as_bytes());
    let (mut out, mut at) = (String::new(), 0);
    for trace in &found {
        let (start, end) = trace.head;
        assert!(trace.start >= at && trace.start <= start && start <= end && end <= trace.end, "{trace:?} in {text}");
        out.push_str(&text[at..trace.start]);
        out.push_str(&text[start..end]);
        at = trace.end;
    }
    out.push_str(&text[at..]);
    (found.iter().map(|trace| trace.language.name()).collect(), out)
}

#[test]
fn every_engine() {
    let cases = [
        (
            "python",
            "Job failed:\nTraceback (most recent call last):\n  File \"/app/run.py\", line 4, in <module>\n    main()\n    ~~~~^^\n  File \"/app/run.py\", line 2, in main\n    raise ValueError(\"no row\")\nValueError: no row\nretrying",
            "Job failed:\nValueError: no row\nretrying",
        ),
        (
            "python",
            "  Traceback (most recent call last):\n    File \"x.py\", line 1, in <module>\n      import a\n  ModuleNotFoundError: No module named 'a'",
            "  ModuleNotFoundError: No module named 'a'",
        ),
        (
            "java",
            "Exception in thread \"main\" java.lang.IllegalStateException: no row\n\tat com.example.Db.get(Db.java:12)\n\tat com.example.Main.main(Main.java:3)\nCaused by: java.io.IOException: gone\n\tat com.example.Net.read(Net.java:8)\n\t... 2 more\ndone",
            "Exception in thread \"main\" java.lang.IllegalStateException: no row\ndone",
        ),
        (
            "java",
            "kotlin.KotlinNullPointerException\n    at com.example.MainKt.main(Main.kt:7)\n    at com.example.MainKt.main(Main.kt)",
            "kotlin.KotlinNullPointerException",
        ),
        (
            "javascript",
            "TypeError: x is not a function\n    at run (/app/src/run.js:10:5)\n    at async main (file:///app/src/main.mjs:3:1)\n    at node:internal/main/run_main_module:28:49\nNode.js v22.1.0",
            "TypeError: x is not a function\nNode.js v22.1.0",
        ),
        (
            "javascript",
            "TypeError: x is null\nrun@https://app.example/a.js:10:5\nmain@https://app.example/a.js:1:9\n",
            "TypeError: x is null\n",
        ),
        (
            "go",
            "2026/01/01 00:00:00 start\npanic: runtime error: index out of range [3] with length 2\n\ngoroutine 1 [running]:\nmain.get(...)\n\t/app/main.go:8\nmain.main()\n\t/app/main.go:4 +0x1d\nexit status 2",
            "2026/01/01 00:00:00 start\npanic: runtime error: index out of range [3] with length 2",
        ),
        (
            "rust",
            "thread 'main' panicked at src/main.rs:4:5:\nindex out of bounds: the len is 2\nstack backtrace:\n   0: rust_begin_unwind\n             at /rustc/abc/library/std/src/panicking.rs:1:5\n   1: app::main\nnote: run with `RUST_BACKTRACE=full` for more",
            "thread 'main' panicked at src/main.rs:4:5:\nindex out of bounds: the len is 2",
        ),
        (
            "csharp",
            "Unhandled exception. System.IO.FileNotFoundException: gone\n   at System.IO.File.Open(String path)\n   at App.Program.Main(String[] args) in /src/Program.cs:line 12\n",
            "Unhandled exception. System.IO.FileNotFoundException: gone\n",
        ),
        (
            "ruby",
            "app.rb:3:in `get': no row (RuntimeError)\n\tfrom app.rb:7:in `run'\n\tfrom app.rb:10:in `<main>'\n",
            "no row (RuntimeError)\n",
        ),
        (
            "php",
            "PHP Fatal error:  Uncaught Exception: no row in /var/www/a.php:3\nStack trace:\n#0 /var/www/a.php(7): get()\n#1 {main}\n  thrown in /var/www/a.php on line 3\n",
            "PHP Fatal error:  Uncaught Exception: no row in /var/www/a.php:3\n",
        ),
        (
            "dart",
            "Unhandled exception:\nBad state: no row\n#0      get (package:app/db.dart:3:5)\n#1      main (file:///app/bin/main.dart:7:3)\n<asynchronous suspension>\n",
            "Unhandled exception:\nBad state: no row\n",
        ),
        (
            "c",
            "==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x602 at pc 0x4f1\nREAD of size 4 at 0x602 thread T0\n    #0 0x4f1 in main /src/a.c:5:3\n    #1 0x7f0 in __libc_start_main (/lib/libc.so.6+0x2)\nSUMMARY: AddressSanitizer: heap-use-after-free /src/a.c:5:3 in main\n",
            "==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x602 at pc 0x4f1\n",
        ),
        (
            "sql",
            "ERROR:  syntax error at or near \"selct\"\nLINE 1: selct name from people;\n        ^\nHINT:  see the manual\nrolled back",
            "ERROR:  syntax error at or near \"selct\"\nrolled back",
        ),
        (
            "sql",
            "sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) no such table: people\n[SQL: SELECT name\nFROM people WHERE id = ?]\n[parameters: (1,)]\n(Background on this error at: https://sqlalche.me/e/20/e3q8)",
            "sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) no such table: people",
        ),
        (
            "sql",
            "You have an error in your SQL syntax; check the manual for the right syntax to use near 'selct 1' at line 1",
            "You have an error in your SQL syntax; check the manual for the right syntax to use",
        ),
    ];
    for (language, text, want) in cases {
        let (found, left) = reduced(text);
        assert!(!found.is_empty() && found.iter().all(|found| *found == language), "{found:?} for\n{text}");
        assert_eq!(left, want);
        // Nothing is found in what was left.
        assert_eq!(reduced(&left), (Vec::new(), left.clone()), "{left}");
        // Lines may end otherwise.
        assert_eq!(reduced(&text.replace('\n', "\r\n")).0, found, "{text}");
    }
}

#[test]
fn what_is_no_trace() {
    for text in [
        "The error is at the top of the page (line 3).",
        "meet me\n  at noon\n  at the station",
        "Steps:\n  at least one (see below)\nend",
        "#0 the first\n#1 the second",
        "LINE 4 of the poem",
        "thread 'main' panicked at src/main.rs:2:5:\nno row",
        "panic: keep calm",
        "Traceback (most recent call last):",
        "goroutine leaks are hard to find",
        "mail me@http://example.com:80:1",
        "Stack trace:\nnone",
        "[SQL: none",
    ] {
        assert_eq!(find(text.as_bytes()), [], "{text}");
    }
}

#[test]
fn several_in_one_text_are_apart() {
    let one = "Error: no row\n    at get (/a.js:1:2)\n    at run (/a.js:3:4)\n";
    let (found, left) = reduced(&format!("{one}and then\n{one}"));
    assert_eq!(found, ["javascript", "javascript"]);
    assert_eq!(left, "Error: no row\nand then\nError: no row\n");
}
