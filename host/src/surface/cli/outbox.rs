//! `send` and `outbox`: open and failed deliveries.

use std::io::Read;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::args::{Listed, OutboxCommand, SendArgs};
use super::ask::{self, print, print_json, say, unexpected};
use super::table::{Table, ago};
use super::{Context, FAILED, Failure, STILL_RUNNING};
use crate::engine::operator::{ControlReply, ControlRequest, DeliveryInfo, PartInfo};
use hermes_core::clock::Clock;
use hermes_core::text::{one_line, span};
use hermes_system::clock::SystemClock;

/// Interval at which the host is asked for the state of a delivery.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The longest reason of a part that is shown, in characters.
const DETAIL_CHARS_MAX: usize = 500;

/// The longest text of `send`, in bytes.
const TEXT_BYTES_MAX: u64 = 256 * 1024;

pub async fn send(context: &Context, args: SendArgs) -> Result<(), Failure> {
    let text = if args.text == "-" { read_text()? } else { args.text };
    if text.trim().is_empty() && args.file.is_none() {
        return Err(Failure::usage("nothing to send; write a text or pass a file"));
    }
    // The host may have another working folder.
    let absolute = |path| {
        std::path::absolute(&path).map_err(|error| Failure::failed(format!("{path:?} cannot be found ({error})")))
    };
    let file = args.file.map(absolute).transpose()?;
    let SendArgs { target, mirror, wait, json, .. } = args;
    let reply = ask::host(context, &ControlRequest::Send { target: target.clone(), text, file, mirror }).await?;
    match reply {
        ControlReply::Owed { delivery, note } if wait.is_some() || json => {
            if let Some(note) = note.filter(|_| !json) {
                say(&note)?;
            }
            receipt(context, delivery, Duration::from_secs(wait.unwrap_or(0)), json).await
        }
        ControlReply::Owed { delivery, note } => {
            let note = note.map(|note| format!("\n{note}")).unwrap_or_default();
            say(&format!(
                "queued for {target} as delivery {delivery}; `hermes-host outbox show {delivery}` shows whether it \
                 arrived{note}"
            ))
        }
        ControlReply::Done { message } => say(&message),
        other => Err(unexpected(&other)),
    }
}

/// The result of a `send`, as `--json` prints it.
#[derive(Debug, PartialEq, Serialize)]
struct Sent {
    delivery: i64,
    /// `delivered`, `refused`, `abandoned`; `owed` while the result is open.
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    message_ids: Vec<String>,
}

impl Sent {
    fn of(delivery: &DeliveryInfo, parts: &[PartInfo]) -> Self {
        Self {
            delivery: delivery.id,
            state: state(delivery).to_owned(),
            why: delivery.why.clone(),
            message_ids: parts.iter().flat_map(|part| part.message_ids.iter().cloned()).collect(),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "delivered" | "refused" | "abandoned")
    }

    /// Returns the exit code: delivered, failed, or still open.
    fn code(&self) -> u8 {
        match self.state.as_str() {
            "delivered" => 0,
            "refused" | "abandoned" => FAILED,
            _ => STILL_RUNNING,
        }
    }

    fn sentence(&self) -> String {
        let id = self.delivery;
        let why = self.why.as_deref().map_or_else(String::new, |why| format!(": {}", one_line(why, DETAIL_CHARS_MAX)));
        match self.state.as_str() {
            "delivered" => format!("delivered (delivery {id})"),
            "refused" | "abandoned" => {
                format!("not delivered{why}; `hermes-host outbox retry {id}` retries delivery {id}")
            }
            _ => format!(
                "not delivered yet; the host keeps retrying; `hermes-host outbox show {id}` shows the state of \
                 delivery {id}"
            ),
        }
    }
}

/// Waits for the end of a delivery and returns its exit code.
async fn receipt(context: &Context, delivery: i64, within: Duration, json: bool) -> Result<(), Failure> {
    let until = Instant::now() + within;
    let sent = loop {
        let reply = ask::host(context, &ControlRequest::OutboxShow { delivery }).await?;
        let ControlReply::Delivery { delivery, parts, .. } = &reply else { return Err(unexpected(&reply)) };
        let sent = Sent::of(delivery, parts);
        if sent.is_over() || Instant::now() >= until {
            break sent;
        }
        tokio::time::sleep(ASK_AGAIN.min(until.saturating_duration_since(Instant::now()))).await;
    };
    if json {
        print_json(&sent)?;
    } else {
        say(&sent.sentence())?;
    }
    match sent.code() {
        0 => Ok(()),
        // Without `--wait` the command succeeds once the text is queued.
        STILL_RUNNING if within.is_zero() => Ok(()),
        code => Err(Failure::silent(code)),
    }
}

fn read_text() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .take(TEXT_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| Failure::failed(format!("standard input cannot be read ({error})")))?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        return Err(Failure::failed(format!("the text is longer than {TEXT_BYTES_MAX} bytes; send it in parts")));
    }
    Ok(text)
}

pub async fn outbox(context: &Context, command: OutboxCommand) -> Result<(), Failure> {
    match command {
        OutboxCommand::List { all, shown } => list(context, all, shown).await,
        OutboxCommand::Show { delivery, json } => show(context, delivery, json).await,
        OutboxCommand::Retry { delivery } => ask::done(context, &ControlRequest::OutboxRetry { delivery }).await,
        OutboxCommand::Drop { delivery, why } => {
            ask::done(context, &ControlRequest::OutboxDrop { delivery, why }).await
        }
    }
}

async fn list(context: &Context, all: bool, Listed { limit, json }: Listed) -> Result<(), Failure> {
    let reply = ask::host_or_store(context, &ControlRequest::OutboxList { limit, all }).await?;
    let ControlReply::Outbox { deliveries } = &reply else { return Err(unexpected(&reply)) };
    if json {
        return print_json(deliveries);
    }
    print(&listing(deliveries, SystemClock.now_ms()))
}

fn listing(deliveries: &[DeliveryInfo], now_ms: i64) -> String {
    let mut table = Table::new(&["DELIVERY", "TO", "PURPOSE", "STATE", "ARRIVED", "SINCE", "RETRIES", "NEXT", "WHY"]);
    for delivery in deliveries {
        table.row([
            delivery.id.to_string(),
            format!("{}:{}", delivery.instance, delivery.chat),
            delivery.purpose.clone(),
            state(delivery).to_owned(),
            arrived(delivery),
            ago(now_ms, delivery.since_ms),
            until(delivery, now_ms),
            next(delivery.next_try_ms, now_ms),
            delivery.why.clone().unwrap_or_default(),
        ]);
    }
    table.render("no owed or abandoned deliveries; --all also shows settled ones")
}

/// Returns the state of a delivery in one word for people; `--json` has the word of the store.
fn state(delivery: &DeliveryInfo) -> &str {
    match delivery.state.as_str() {
        "drafting" => "writing",
        // All parts are settled: delivered or refused.
        "settled" if delivery.why.is_none() => "delivered",
        "settled" => "refused",
        other => other,
    }
}

/// Returns the count of delivered parts; empty if there are no parts yet.
fn arrived(delivery: &DeliveryInfo) -> String {
    if delivery.parts == 0 { String::new() } else { format!("{} of {}", delivery.delivered, delivery.parts) }
}

/// Returns the time until the next attempt; empty if none is scheduled.
fn next(at_ms: Option<i64>, now_ms: i64) -> String {
    at_ms.filter(|at_ms| *at_ms > now_ms).map_or_else(String::new, |at_ms| format!("in {}", span(at_ms - now_ms)))
}

fn until(delivery: &DeliveryInfo, now_ms: i64) -> String {
    match delivery.state.as_str() {
        "owed" if delivery.deadline_ms <= now_ms => "expired".to_owned(),
        "owed" => format!("{} left", span(delivery.deadline_ms - now_ms)),
        _ => String::new(),
    }
}

async fn show(context: &Context, delivery: i64, json: bool) -> Result<(), Failure> {
    let reply = ask::host_or_store(context, &ControlRequest::OutboxShow { delivery }).await?;
    let ControlReply::Delivery { delivery, text, parts } = &reply else { return Err(unexpected(&reply)) };
    if json {
        return print_json(&serde_json::json!({ "delivery": delivery, "text": text, "parts": parts }));
    }
    print(&render(delivery, parts, SystemClock.now_ms()))
}

fn render(delivery: &DeliveryInfo, parts: &[PartInfo], now_ms: i64) -> String {
    let why = delivery.why.as_ref().map_or_else(String::new, |why| format!(": {}", one_line(why, 200)));
    let mut table = Table::new(&["PART", "STATE", "TRIES", "NEXT", "MESSAGE", "TEXT"]);
    for part in parts {
        table.row([
            if part.n == 0 { "preview".to_owned() } else { part.n.to_string() },
            part.state.replace('_', " "),
            part.attempts.to_string(),
            next(part.not_before_ms, now_ms),
            part.message_ids.join(" "),
            part.text.clone(),
        ]);
    }
    let details = parts.iter().filter_map(|part| {
        let detail = part.detail.as_ref()?;
        let which = if part.n == 0 { "preview".to_owned() } else { format!("part {}", part.n) };
        Some(format!("\n{which}: {}", one_line(detail, DETAIL_CHARS_MAX)))
    });
    let details: String = details.collect();
    let below = if details.is_empty() { String::new() } else { format!("{details}\n") };
    format!(
        "delivery {} to {}:{} ({}) is {}{why}, started {}\n\n{}{below}",
        delivery.id,
        delivery.instance,
        delivery.chat,
        delivery.purpose,
        state(delivery),
        ago(now_ms, delivery.since_ms),
        table.render("the delivery has no parts")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_of_each_state_reads_as_what_it_is() {
        let delivery = |id: i64, state: &str, (delivered, parts): (u32, u32), why: Option<&str>| {
            serde_json::json!({
                "id": id, "instance": "one", "chat": "5", "purpose": "reply", "state": state, "why": why,
                "since_ms": 1_000, "deadline_ms": 61_000, "parts": parts, "delivered": delivered,
            })
        };
        let all = serde_json::json!([
            delivery(6, "drafting", (0, 0), None),
            delivery(5, "owed", (1, 2), None),
            delivery(4, "settled", (1, 1), None),
            delivery(3, "settled", (0, 1), Some("refused (forbidden): blocked")),
            delivery(2, "abandoned", (0, 1), Some("doubtful twice")),
        ]);
        let mut all: Vec<DeliveryInfo> = serde_json::from_value(all).unwrap();
        all[1].next_try_ms = Some(18_000);
        assert_eq!(
            listing(&all, 11_000),
            "DELIVERY  TO     PURPOSE  STATE      ARRIVED  SINCE     RETRIES    NEXT    WHY\n\
             6         one:5  reply    writing             10 s ago\n\
             5         one:5  reply    owed       1 of 2   10 s ago  50 s left  in 7 s\n\
             4         one:5  reply    delivered  1 of 1   10 s ago\n\
             3         one:5  reply    refused    0 of 1   10 s ago                     refused (forbidden): blocked\n\
             2         one:5  reply    abandoned  0 of 1   10 s ago                     doubtful twice\n"
        );
        assert!(listing(&all[1..2], 62_000).contains("expired"), "its deadline has passed");
        assert!(listing(&[], 0).starts_with("no owed or abandoned deliveries"));
    }

    #[test]
    fn a_part_of_each_state_is_shown_with_its_tries_and_what_comes_next() {
        let delivery = serde_json::json!({
            "id": 7, "instance": "one", "chat": "5", "purpose": "reply", "state": "owed",
            "since_ms": 1_000, "deadline_ms": 99_000, "parts": 6, "delivered": 1,
        });
        let part =
            |n: u32, state: &str| serde_json::json!({ "n": n, "state": state, "attempts": n, "text": format!("t{n}") });
        let mut parts: Vec<_> = ["delivered", "delivered", "in_flight", "unknown", "deferred", "owed", "refused"]
            .iter()
            .zip(0..)
            .map(|(state, n)| part(n, state))
            .collect();
        parts[1]["message_ids"] = serde_json::json!(["m1"]);
        parts[4]["not_before_ms"] = serde_json::json!(16_000);
        let parts: Vec<PartInfo> = serde_json::from_value(parts.into()).unwrap();
        let shown = render(&serde_json::from_value(delivery).unwrap(), &parts, 11_000);
        assert_eq!(
            shown,
            "delivery 7 to one:5 (reply) is owed, started 10 s ago\n\n\
             PART     STATE      TRIES  NEXT    MESSAGE  TEXT\n\
             preview  delivered  0                       t0\n\
             1        delivered  1              m1       t1\n\
             2        in flight  2                       t2\n\
             3        unknown    3                       t3\n\
             4        deferred   4      in 5 s           t4\n\
             5        owed       5                       t5\n\
             6        refused    6                       t6\n"
        );
    }

    #[test]
    fn the_end_of_a_send_has_its_exit_code() {
        let ended = |state: &str, why: Option<&str>| {
            let delivery = serde_json::json!({
                "id": 7, "instance": "one", "chat": "5", "purpose": "reply", "state": state, "why": why,
                "since_ms": 0, "deadline_ms": 9, "parts": 1, "delivered": 1,
            });
            let parts =
                serde_json::json!([{ "n": 1, "state": state, "attempts": 1, "text": "a", "message_ids": ["m"] }]);
            Sent::of(&serde_json::from_value(delivery).unwrap(), &serde_json::from_value::<Vec<_>>(parts).unwrap())
        };
        let delivered = ended("settled", None);
        assert_eq!((delivered.code(), delivered.message_ids.as_slice()), (0, &["m".to_owned()][..]));
        let refused = ended("settled", Some("refused (forbidden): blocked"));
        assert_eq!((refused.code(), refused.state.as_str()), (FAILED, "refused"));
        assert!(refused.sentence().contains("refused (forbidden): blocked") && refused.sentence().contains("retry 7"));
        assert_eq!(ended("abandoned", Some("doubtful twice")).code(), FAILED);
        let waits = ended("owed", None);
        assert!(!waits.is_over() && waits.code() == STILL_RUNNING && waits.sentence().contains("outbox show 7"));
    }

    #[test]
    fn why_a_part_did_not_arrive_is_shown_below_the_parts() {
        let delivery = serde_json::json!({
            "id": 7, "instance": "one", "chat": "5", "purpose": "reply", "state": "owed",
            "since_ms": 0, "deadline_ms": 9, "parts": 2, "delivered": 1,
        });
        let parts = serde_json::json!([
            { "n": 1, "state": "delivered", "attempts": 1, "text": "a" },
            { "n": 2, "state": "owed", "attempts": 3, "text": "b", "detail": "the network\nis down" },
        ]);
        let (delivery, parts) = (serde_json::from_value(delivery).unwrap(), serde_json::from_value::<Vec<_>>(parts));
        let shown = render(&delivery, &parts.unwrap(), 1);
        assert!(shown.ends_with("\npart 2: the network is down\n"), "{shown}");
    }
}
