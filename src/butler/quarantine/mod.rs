//! The quarantine: what others wrote stays outside of a session, which works with references to it. `inspect` has a
//! session without tools answer about it in a closed form, `notify` quotes it to the owner, `message_read` lets it in.

mod form;
mod inspect;
mod quote;

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

pub(super) use quote::{Quoted, quoted};

use super::handle::Core;
use conversation::{Entry, Reference};
use tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

/// `message_read` and `inspect`.
pub(super) fn quarantine_tools(core: &Arc<Core>) -> Vec<Tool> {
    static DEFS: OnceLock<[Arc<Definition>; 2]> = OnceLock::new();
    let [read, inspect] = DEFS.get_or_init(definitions);
    let core = core.clone();
    let inspecting = handler(move |call| inspect::inspect(call, core.clone()));
    vec![Tool::new(read, handler(message_read)), Tool::new(inspect, inspecting)]
}

fn definitions() -> [Arc<Definition>; 2] {
    let define = |name: &str, description: &str, properties: Value, meta: Meta| {
        let required: Vec<String> = properties.as_object().into_iter().flat_map(|all| all.keys().cloned()).collect();
        Definition::built_in(name, description, properties, required, meta)
    };
    // The content's own label says who may learn it.
    let reads = |meta: Meta| Meta { reads_private: false, reads_untrusted: true, ..meta };
    let reference = json!({"type": "string", "description": "untrusted:N, from conversation_before"});
    [
        define(
            "message_read",
            "Read a message that conversation_before withholds. From then on this session is believed no more than \
             whoever wrote it: what it would change or tell others waits for the owner.",
            json!({"reference": reference}),
            reads(Meta::read()),
        ),
        define(
            "inspect",
            "Have a question answered about a message that conversation_before withholds, without reading it: this session \
             stays as trusted as it is.",
            json!({
                "reference": reference,
                "question": {"type": "string", "minLength": 1, "maxLength": 4000},
                "answer_schema": {"type": "object", "description": "JSON Schema of an object whose properties are enum, boolean, \
                    integer, number, or string with format date or date-time. A string with maxLength is free text, which \
                    lowers this session as message_read does"},
            }),
            reads(Meta::write(Effect::Once)).labelled(),
        ),
    ]
}

/// What a reference among the arguments names, if the caller may be told of it. Nothing is shown to the call by this:
/// whoever hands on a part of it says so.
///
/// The answer is the same for what there is not, what the butler may not read, and what those may not learn who may
/// learn what the session says.
async fn resolve(call: &ToolCall, argument: &str) -> Result<Entry, ToolError> {
    let unknown = || {
        ToolError::refused(
            "not_found",
            "This is no reference that conversation_before gives here, such as untrusted:7.",
        )
    };
    let reference: Reference = call.text(argument).unwrap_or_default().parse().map_err(|_| unknown())?;
    let mut lease = call.store.lease(call.context()).await?;
    let said = reference.entry(&mut lease).await?;
    said.filter(|said| said.audience.covers(&call.context().audience)).ok_or_else(unknown)
}

/// Refuses a session that others influenced, before anything is looked at. Whoever wrote to it could ask about, or have
/// shown around, what others wrote.
fn only_trusted(call: &ToolCall, what: &str) -> Result<(), ToolError> {
    if call.context().label().is_influenced() {
        let why = format!(
            "{what} is for sessions that only the owner and the house had a part in; this one read what others wrote."
        );
        return Err(ToolError::for_trusted_sessions(why));
    }
    Ok(())
}

async fn message_read(call: ToolCall) -> Result<Value, ToolError> {
    let said = resolve(&call, "reference").await?;
    call.shows(&said.label());
    Ok(json!({"reference": call.text("reference"), "at": said.said_at.to_string(), "channel": said.channel,
              "from": said.butler.as_ref().unwrap_or(&said.person), "trust": said.trust, "subject": said.subject,
              "text": said.text, "attachments": said.attachments}))
}
