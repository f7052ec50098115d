//! What a butler says: answers, messages, reminders, and what became of them.

mod aftermath;
mod deliver;
mod notifications;
mod notify;
mod remind;

use std::sync::Arc;

use serde_json::Value;

pub(super) use aftermath::{Replies, listen};
pub(super) use deliver::deliver_tool;

use notifications::notifications_tool;
use notify::notify_tool;
use remind::remind_tool;

use inbox::Desk;
use outbox::Post;
use tools::{Definition, Meta, Tool};

/// The tools.
pub(super) fn outbound_tools(desk: &Desk, post: &Post) -> Vec<Tool> {
    vec![notify_tool(desk, post), remind_tool(post), notifications_tool()]
}

fn define(name: &str, description: &str, schema: Value, meta: Meta) -> Arc<Definition> {
    Arc::new(Definition::new(name, description, schema, meta).expect("a schema in the source is right"))
}
