//! `ask_butler`, `council_ask` and `list_butlers`: one butler asks another, through the switchboard.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use crate::sql::{self, AskStanding, NewAsk};
use base::{MAX_LINEAGE_DEPTH, RequestContext};
use inbox::{Inbox, LiveKind, ROUTE_EXECUTE, ROUTE_SCHEMA, Route, RouteInput, RouteKind, RouteTarget, Subrequest};
use tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

/// A session waits this long; what comes later starts another.
const DEADLINE: Duration = Duration::from_secs(90);

/// The butler that is a council, and its module.
pub const COUNCIL: &str = "council";
/// A deliberation is several models, one after the other.
const COUNCIL_DEADLINE: u64 = 300;

/// `council_ask` for another butler, where the household has a council.
pub fn council_tool(inbox: &Inbox, roster: &Path, own: &str) -> Option<Tool> {
    static DEFINITION: OnceLock<Arc<Definition>> = OnceLock::new();
    if own == COUNCIL || !config::has_module(roster, COUNCIL, COUNCIL) {
        return None;
    }
    let definition = DEFINITION.get_or_init(|| {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["question"],
            "properties": {"question": {"type": "string", "minLength": 1, "maxLength": 65536,
                                        "description": "With all that must be known to answer it"}}});
        let description = "Have several models deliberate on a hard question, and wait for their answer.";
        let definition = Definition::new("council_ask", description, schema, meta());
        Arc::new(definition.expect("a schema in the source is right"))
    });
    let asking = inbox.clone();
    Some(Tool::new(
        definition,
        handler(move |mut call: ToolCall| {
            let given = [("butler", json!(COUNCIL)), ("deadline_s", json!(COUNCIL_DEADLINE))];
            Arc::make_mut(&mut call.args).extend(given.map(|(name, value)| (name.to_owned(), value)));
            ask(call, asking.clone())
        }),
    ))
}

/// What asking another does.
fn meta() -> Meta {
    Meta { reads_private: true, reads_untrusted: true, ..Meta::write(Effect::Once) }.labelled()
}

/// The tools.
pub fn ask_tools(inbox: &Inbox) -> Vec<Tool> {
    static DEFINITIONS: OnceLock<[Arc<Definition>; 2]> = OnceLock::new();
    let [ask_def, list_def] = DEFINITIONS.get_or_init(|| {
        let define = |name: &str, description: &str, schema: Value, meta: Meta| {
            Arc::new(Definition::new(name, description, schema, meta).expect("a schema in the source is right"))
        };
        let ask = json!({"type": "object", "additionalProperties": false, "required": ["butler", "question"],
            "properties": {
                "butler": {"type": "string", "minLength": 1, "description": "Whom to ask (see list_butlers)"},
                "question": {"type": "string", "minLength": 1, "maxLength": 65536,
                             "description": "The question, with all that the other must know to answer it"},
                "deadline_s": {"type": "integer", "minimum": 1, "maximum": 300, "default": 90,
                               "description": "How long to wait; a later answer comes as a new session"}}});
        let which = json!({"type": "object", "additionalProperties": false, "properties": {
            "routable_only": {"type": "boolean", "default": false,
                              "description": "Only those that work can go to now"}}});
        let reads = Meta { reads_private: false, ..Meta::read() };
        [
            define(
                "ask_butler",
                "Ask another butler of the household a question and wait for its answer.",
                ask,
                meta(),
            ),
            define("list_butlers", "The butlers of the household and what each is for.", which, reads),
        ]
    });
    let (asking, listing) = (inbox.clone(), inbox.clone());
    vec![
        Tool::new(ask_def, handler(move |call| ask(call, asking.clone()))),
        Tool::new(list_def, handler(move |call| list(call, listing.clone()))),
    ]
}

async fn list(call: ToolCall, inbox: Inbox) -> Result<Value, ToolError> {
    let own = call.butler.as_str();
    let wanted = call.args.get("routable_only").and_then(Value::as_bool).unwrap_or(false);
    let shown = inbox.butlers().registered().into_iter().filter(|butler| butler.routable() || !wanted).map(|butler| {
        json!({"name": butler.name, "description": butler.description, "you": butler.name == own,
               "routable": butler.routable(), "eligibility": butler.eligibility, "here": butler.here,
               "route_contract": butler.contract,
               "last_seen_at": butler.last_seen_at.map(|t| t.to_string())})
    });
    Ok(shown.collect())
}

async fn ask(call: ToolCall, inbox: Inbox) -> Result<Value, ToolError> {
    let Some(session) = call.session() else {
        return Err(ToolError::refused(
            "forbidden",
            "Only a session asks another butler; use `butlerd trigger` yourself.",
        ));
    };
    let butler = call.text("butler").unwrap_or_default().to_owned();
    let question = call.text("question").unwrap_or_default().to_owned();
    let routable = inbox.butlers().routable();
    if butler == call.butler.as_str() || !routable.iter().any(|(name, _)| *name == butler) {
        let others = routable.iter().map(|(name, _)| name.as_str()).filter(|name| *name != call.butler.as_str());
        let others: Vec<&str> = others.collect();
        let message = format!("There is no other butler `{butler}` to ask; there are: {}.", others.join(", "));
        return Err(ToolError::refused("unknown_butler", message));
    }
    let own = call.context().clone();
    let request = own.caused_by(session, call.store.clock());
    if request.lineage.depth > MAX_LINEAGE_DEPTH {
        let message =
            format!("Butlers may ask one another at most {MAX_LINEAGE_DEPTH} deep; answer from what you know.");
        return Err(ToolError::refused("too_deep", message));
    }
    let id = Uuid::now_v7();
    let ask = NewAsk {
        id,
        session: session.0,
        request: request.request_id.0,
        butler: &butler,
        question: &question,
        context: &json!(own),
    };
    sql::ask(&call, &ask).await?;
    let mut watch = inbox.watch();
    let child = request.request_id.0;
    if let Err(e) = inbox.route(route(request, id, &butler, &question, call.butler.as_str())).await {
        sql::close_ask(&mut call.lease().await?, id, "failed").await?;
        return Err(ToolError::refused("butler_unavailable", format!("{butler} could not be asked: {e}.")));
    }
    let seconds = call.args.get("deadline_s").and_then(Value::as_u64).map(Duration::from_secs);
    let deadline = Instant::now() + seconds.unwrap_or(DEADLINE);
    while Instant::now() < deadline && !call.cancelled.is_cancelled() {
        let heard = tokio::time::timeout_at(deadline, watch.next(child)).await;
        if matches!(heard, Ok(Some(ref kind)) if !matches!(kind, LiveKind::SegmentSettled { .. })) {
            continue;
        }
        if let Some(answer) = answered(&call, id).await? {
            return answer;
        }
    }
    let was_open = sql::close_ask(&mut call.lease().await?, id, "late").await?;
    if !was_open && let Some(answer) = answered(&call, id).await? {
        return answer;
    }
    Ok(json!({"status": "pending", "ask_id": id,
              "message": format!("{butler} has not answered yet. Its answer will come to you as a new session.")}))
}

fn route(request: RequestContext, id: Uuid, butler: &str, question: &str, asker: &str) -> Route {
    Route {
        schema_version: ROUTE_SCHEMA.to_owned(),
        request_context: request,
        input: RouteInput {
            prompt: question.to_owned(),
            sender: None,
            context: None,
            conversation_history: Vec::new(),
            attachments: Vec::new(),
        },
        subrequest: Subrequest { segment_id: id, asked_by: Some(asker.to_owned()) },
        target: RouteTarget { butler: butler.to_owned(), tool: ROUTE_EXECUTE.to_owned() },
        kind: RouteKind::Ask,
        interactive: false,
    }
}

/// The answer, once it is on record.
async fn answered(call: &ToolCall, id: Uuid) -> Result<Option<Result<Value, ToolError>>, ToolError> {
    let Some(AskStanding { state, answer }) = sql::standing_of(call, id).await? else { return Ok(None) };
    Ok(match state.as_str() {
        "answered" => Some(Ok(json!({"status": "ok", "answer": answer}))),
        "failed" => Some(Err(ToolError::refused("no_answer", answer.unwrap_or_else(|| "It could not answer.".into())))),
        _ => None,
    })
}
