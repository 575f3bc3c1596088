//! Dates of the calendar, for logs and protocols.

/// The last second that has a year of four digits.
const LAST: u64 = 253_402_300_799;

/// Year, month and day (from 1) of a day since 1970-01-01, in the Gregorian calendar.
pub fn civil(days: u64) -> (u64, u64, u64) {
    // Days are counted in eras of 400 years that begin with a March.
    let z = days + 719_468;
    let (era, day) = (z / 146_097, z % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let in_year = day - (365 * year + year / 4 - year / 100);
    let m = (5 * in_year + 2) / 153;
    let (d, month) = (in_year - (153 * m + 2) / 5 + 1, if m < 10 { m + 3 } else { m - 9 });
    (year + era * 400 + u64::from(month <= 2), month, d)
}

/// Seconds since 1970 as `2026-01-31T23:59:59` (RFC 3339, UTC).
pub fn rfc3339(second: u64) -> String {
    let (year, month, day) = civil(second / 86_400);
    let s = second % 86_400;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}

/// Seconds since 1970 in the form that HTTP writes, 29 bytes: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC
/// 9110 section 5.6.7). Times behind the year 9999 are its end.
pub fn http(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = seconds.min(LAST);
    let (days, s) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (name, month) = (DAYS[(days % 7) as usize], MONTHS[(month - 1) as usize]);
    format!("{name}, {day:02} {month} {year:04} {:02}:{:02}:{:02} GMT", s / 3600, s / 60 % 60, s % 60)
}
