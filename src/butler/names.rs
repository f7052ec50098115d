//! The names of the tools that butlers have by themselves, for who looks at a roster that is not served.

use super::routed::COUNCIL;
use tools::{TOOL_CALL, TOOL_FIND};

/// Of every butler. A test holds them against a butler that is up.
const ALL: &[&str] = &[
    "ask_butler",
    "get_attachment",
    "inspect",
    "list_butlers",
    "message_read",
    "module.set_enabled",
    "module.states",
    "note_drop",
    "note_to_self",
    "notes_list",
    "notifications",
    "notify",
    "remind",
    "schedule_costs",
    "schedule_create",
    "schedule_delete",
    "schedule_done",
    "schedule_list",
    "schedule_trigger",
    "schedule_update",
    "sessions_daily",
    "sessions_get",
    "sessions_list",
    "sessions_summary",
    "state_delete",
    "state_get",
    "state_list",
    "state_set",
    "status",
    "tick",
    "top_sessions",
    "trigger",
];

/// Of the switchboard besides.
const SWITCHBOARDS: &[&str] = &[
    "abort_request",
    "backfill.poll",
    "backfill.progress",
    "backfill_cancel",
    "backfill_list",
    "backfill_pause",
    "backfill_resume",
    "cancel_request",
    "connector.heartbeat",
    "connector_disconnect",
    "connector_list",
    "contact_identity_add",
    "contact_identity_list",
    "contact_identity_remove",
    "create_backfill_job",
    "deliver",
    "extraction_log_list",
    "extraction_log_undo",
    "force_complete_request",
    "get_dead_letter_stats",
    "ingest",
    "list_refused_senders",
    "list_replay_eligible_requests",
    "log_extraction",
    "manual_reroute_request",
    "post_mail",
    "replay_dead_letter_request",
    "route_to_butler",
    "triage_dry_run",
    "triage_rule_add",
    "triage_rule_list",
    "triage_rule_remove",
    "triage_rule_update",
];

/// Of the messenger besides.
const MESSENGERS: &[&str] = &[
    "messenger_circuit_status",
    "messenger_dead_letter_discard",
    "messenger_dead_letter_inspect",
    "messenger_dead_letter_list",
    "messenger_dead_letter_replay",
    "messenger_delivery_attempts",
    "messenger_delivery_search",
    "messenger_delivery_stats",
    "messenger_delivery_status",
    "messenger_delivery_trace",
    "messenger_dry_run",
    "messenger_queue_depth",
    "messenger_rate_limit_status",
    "messenger_validate_notify",
];

/// Of every butler but the council itself, where the household has a council. Known in a household without one as well: its
/// files may speak of one that is yet to come, and the name is taken.
const WITH_A_COUNCIL: &[&str] = &["council_ask"];

/// The tools that the butler of this name has without a module, but for those that come with skills.
pub fn own_tools(butler: &str) -> Vec<&'static str> {
    let more: &[&str] = match butler {
        inbox::SWITCHBOARD => SWITCHBOARDS,
        outbox::MESSENGER => MESSENGERS,
        _ => &[],
    };
    let council: &[&str] = if butler == COUNCIL { &[] } else { WITH_A_COUNCIL };
    [ALL, council, &[TOOL_CALL, TOOL_FIND], more].concat()
}
