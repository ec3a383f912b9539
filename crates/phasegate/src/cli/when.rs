//! Times for people.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `14:02`, with the date where that is not today's.
pub fn clock(time: Timestamp) -> String {
    let here = time.to_zoned(TimeZone::system());
    let today = Timestamp::now().to_zoned(TimeZone::system()).date();
    let format = if here.date() == today { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    here.strftime(format).to_string()
}

/// `2026-11-17 14:02:31`, where the reader is.
pub fn full(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// `12 seconds ago`
pub fn ago(time: Timestamp) -> String {
    let seconds = Timestamp::now().as_second() - time.as_second();
    let (count, unit) = match seconds {
        ..=1 => return "just now".into(),
        2..120 => (seconds, "seconds"),
        120..7_200 => (seconds / 60, "minutes"),
        7_200..172_800 => (seconds / 3_600, "hours"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{count} {unit} ago")
}
