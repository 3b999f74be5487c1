use proptest::prelude::*;

use super::*;

fn context() -> TurnContext {
    TurnContext {
        platform: "telegram".into(),
        source: "family".into(),
        chat_id: "5".into(),
        chat_name: "Ada\0 & Co".into(),
        session_key: "agent:main:family:dm:5".into(),
        session_id: Some("s1".into()),
        profile: "main".into(),
        ..TurnContext::default()
    }
}

fn bound(context: TurnContext) -> Binding {
    Binding::Bound(Box::new(context))
}

fn outside(name: &str) -> Option<String> {
    Some(format!("process {name}"))
}

#[test]
fn a_child_gets_the_variables_of_its_turn_also_the_empty_ones() {
    let child = context().child_environment();
    assert_eq!(child.set.len(), SESSION_VARIABLES.len());
    assert_eq!(child.set["HERMES_SESSION_PLATFORM"], "telegram");
    assert_eq!(child.set["HERMES_SESSION_SOURCE"], "family");
    assert_eq!(child.set["HERMES_SESSION_KEY"], "agent:main:family:dm:5");
    assert_eq!(child.set["HERMES_SESSION_ID"], "s1");
    assert_eq!(child.set["HERMES_SESSION_THREAD_ID"], "");
    assert_eq!(child.set["HERMES_SESSION_CHAT_NAME"], "Ada & Co", "a NUL would keep the child from starting");
    let removed: Vec<_> = CRON_VARIABLES.into_iter().chain([CONTROL_TOKEN]).collect();
    assert_eq!(child.remove, removed, "nothing of an earlier job or run is inherited");
}

#[test]
fn scheduled_work_tells_its_children_where_it_delivers() {
    let target = CronTarget { platform: "slack".into(), chat_id: "C1".into(), thread_id: String::new() };
    let child = TurnContext { cron: Some(target), ..context() }.child_environment();
    assert_eq!(child.set["HERMES_CRON_AUTO_DELIVER_PLATFORM"], "slack");
    assert_eq!(child.set["HERMES_CRON_AUTO_DELIVER_CHAT_ID"], "C1");
    assert_eq!(child.set["HERMES_CRON_AUTO_DELIVER_THREAD_ID"], "");
    assert_eq!(child.remove, [CONTROL_TOKEN], "no token of another run is inherited");
}

#[test]
fn a_session_that_rotates_is_seen_by_later_children() {
    let mut context = context();
    context.rotate("s2".into());
    assert_eq!(context.child_environment().set["HERMES_SESSION_ID"], "s2");
}

#[test]
fn never_bound_reads_the_process_and_bound_to_nothing_does_not() {
    let name = "HERMES_SESSION_THREAD_ID";
    assert_eq!(Binding::Unbound.variable(name, outside), outside(name));
    assert_eq!(bound(context()).variable(name, outside), Some(String::new()));
    assert_eq!(Binding::Cleared.variable(name, outside), Some(String::new()));
    assert_eq!(bound(context()).variable("HOME", outside), outside("HOME"));
    assert_eq!(Binding::Cleared.variable("HOME", outside), outside("HOME"));
    assert_eq!(bound(context()).variable(CRON_VARIABLES[0], outside), outside(CRON_VARIABLES[0]));
}

#[test]
fn delivery_after_the_turn_follows_the_binding() {
    assert!(Binding::Unbound.async_delivery());
    assert!(Binding::Cleared.async_delivery());
    assert!(!bound(context()).async_delivery());
    assert!(bound(TurnContext { async_delivery: true, ..context() }).async_delivery());
}

#[test]
fn a_child_outside_of_any_turn_inherits_nothing_once_the_process_has_hosted_one() {
    assert_eq!(Binding::Unbound.child_environment(false), ChildEnvironment::default());
    let engaged = Binding::Unbound.child_environment(true);
    assert!(engaged.set.is_empty());
    assert_eq!(engaged.remove.len(), SESSION_VARIABLES.len() + CRON_VARIABLES.len() + 1);
    let cleared = Binding::Cleared.child_environment(true);
    assert!(cleared.set.len() == SESSION_VARIABLES.len() && cleared.set.values().all(String::is_empty));
}

proptest! {
    #[test]
    fn no_variable_is_both_set_and_removed_and_none_holds_a_nul(
        name in "[a\\x00=é]{0,5}", cron: bool, state in 0u8..4,
    ) {
        let mut context = context();
        context.user_name = name;
        context.cron = cron.then(CronTarget::default);
        let binding = match state {
            0 | 1 => bound(context),
            2 => Binding::Cleared,
            _ => Binding::Unbound,
        };
        let child = binding.child_environment(true);
        prop_assert!(child.remove.iter().all(|name| !child.set.contains_key(name)));
        prop_assert!(child.set.values().all(|value| !value.contains('\0')));
        prop_assert_eq!(child.set.len() + child.remove.len(), SESSION_VARIABLES.len() + CRON_VARIABLES.len() + 1);
    }
}
