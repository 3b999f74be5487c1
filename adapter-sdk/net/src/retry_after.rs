//! The wait that a server requests.

use std::time::Duration;

use serde_json::Value;

/// The longest accepted wait.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Parses a `Retry-After` header: seconds, or a date. A date is compared with the
/// response's own `Date` header, so the two clocks need not agree.
pub fn from_header(retry_after: &str, date: Option<&str>) -> Option<Duration> {
    let text = retry_after.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return bounded(seconds);
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let sent = httpdate::parse_http_date(date?.trim()).ok()?;
    Some(until.duration_since(sent).unwrap_or_default().min(RETRY_AFTER_MAX))
}

/// Returns `retry_after` (seconds) or `retry_after_ms` of a response body, at its top
/// level, in `parameters` or in `error`.
pub fn from_json(body: &Value) -> Option<Duration> {
    [body, &body["parameters"], &body["error"]].into_iter().find_map(|place| {
        let seconds = number(&place["retry_after"]).or_else(|| number(&place["retry_after_ms"]).map(|ms| ms / 1000.0));
        seconds.and_then(bounded)
    })
}

/// Returns the wait from the headers of a response.
#[cfg(feature = "client")]
pub fn from_headers(headers: &reqwest::header::HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    from_header(text(reqwest::header::RETRY_AFTER)?, text(reqwest::header::DATE))
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn bounded(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(RETRY_AFTER_MAX.as_secs_f64())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn seconds_are_read_and_bounded() {
        assert_eq!(from_header(" 7 ", None), Some(Duration::from_secs(7)));
        assert_eq!(from_header("1.5", None), Some(Duration::from_millis(1500)));
        assert_eq!(from_header("99999999999999999999", None), Some(RETRY_AFTER_MAX));
        for wrong in ["-1", "NaN", "soon", ""] {
            assert_eq!(from_header(wrong, None), None, "{wrong:?}");
        }
        assert_eq!(from_header("inf", None), Some(RETRY_AFTER_MAX));
    }

    #[test]
    fn a_date_counts_from_the_date_of_the_answer() {
        let at = |second| format!("Fri, 27 Nov 2026 10:00:{second:02} GMT");
        assert_eq!(from_header(&at(30), Some(&at(10))), Some(Duration::from_secs(20)));
        assert_eq!(from_header(&at(10), Some(&at(30))), Some(Duration::ZERO));
        assert_eq!(from_header(&at(10), None), None);
    }

    #[test]
    fn bodies_of_the_platforms_are_read() {
        let cases = [
            (json!({"retry_after": 0.25}), Some(250)),
            (json!({"ok": false, "parameters": {"retry_after": 3}}), Some(3000)),
            (json!({"error": {"retry_after_ms": 1200}}), Some(1200)),
            (json!({"retry_after": "2"}), Some(2000)),
            (json!({"retry_after": -1}), None),
            (json!([]), None),
            (json!("text"), None),
        ];
        for (body, expected_ms) in cases {
            assert_eq!(from_json(&body), expected_ms.map(Duration::from_millis), "{body}");
        }
    }
}
