//! How large a picture is, by its head.

use super::FileType;

/// Width times height, as far as the beginning of the file says.
pub fn pixels(kind: FileType, bytes: &[u8]) -> Option<u64> {
    let (width, height) = match kind {
        FileType::Png if bytes.get(12..16) == Some(b"IHDR") => (big(bytes, 16, 4)?, big(bytes, 20, 4)?),
        FileType::Gif => (little(bytes, 6, 2)?, little(bytes, 8, 2)?),
        FileType::Bmp => (little(bytes, 18, 4)?, little(bytes, 22, 4)?),
        FileType::Jpeg => jpeg(bytes)?,
        FileType::Webp => webp(bytes)?,
        _ => return None,
    };
    // A negative height means that the rows stand in another order.
    let height = if kind == FileType::Bmp { u64::from((height as u32 as i32).unsigned_abs()) } else { height };
    Some(width.saturating_mul(height))
}

fn big(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let digits = bytes.get(at..at.checked_add(length)?)?;
    Some(digits.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn little(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let digits = bytes.get(at..at.checked_add(length)?)?;
    Some(digits.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// The frame's head stands behind segments that each say how long they are.
fn jpeg(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        match *bytes.get(at + 1)? {
            // Filling.
            0xff => at += 1,
            // Without a length.
            0x01 | 0xd0..=0xd8 => at += 2,
            // Tables for the decoder, not frames.
            0xc4 | 0xc8 | 0xcc => at += 2 + big(bytes, at + 2, 2)? as usize,
            0xc0..=0xcf => return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?)),
            // The picture itself, or its end.
            0xd9 | 0xda => return None,
            _ => at += 2 + big(bytes, at + 2, 2)? as usize,
        }
    }
}

fn webp(bytes: &[u8]) -> Option<(u64, u64)> {
    match bytes.get(12..16)? {
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        b"VP8L" => {
            let sizes = little(bytes, 21, 4)?;
            Some(((sizes & 0x3fff) + 1, ((sizes >> 14) & 0x3fff) + 1))
        }
        b"VP8 " => Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff)),
        _ => None,
    }
}
