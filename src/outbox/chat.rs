//! The chat: what is for the owner waits in its row until `butlerd chat` shows it.

use async_trait::async_trait;
use serde_json::json;

use super::channel::{Channel, Conversation, Outcome};
use super::delivery::Delivery;
use super::household::CHAT;

/// The token under which the command line on this host talks, and the thread that it talks in.
const LOCAL: &str = "local";
const LABEL: &str = "cli";
const THREAD: &str = "main";

pub(super) struct ChatChannel;

#[async_trait]
impl Channel for ChatChannel {
    fn name(&self) -> &str {
        CHAT
    }
    fn at_home(&self) -> bool {
        true
    }
    fn carries_files(&self) -> bool {
        false
    }
    fn targets(&self) -> Vec<String> {
        vec!["owner".to_owned()]
    }
    /// Its row is the delivery: committed twice it is the same row.
    fn repeatable(&self, _: &Delivery) -> bool {
        true
    }
    fn conversation(&self, _: &Delivery) -> Option<Conversation> {
        Some(Conversation {
            channel: CHAT.to_owned(),
            endpoint: LOCAL.to_owned(),
            thread: Some(format!("{LABEL}/{THREAD}")),
            sender: LABEL.to_owned(),
        })
    }
    async fn send(&self, _: &Delivery) -> Outcome {
        Outcome::Sent { receipt: json!({"shown_by": "butlerd chat"}) }
    }
}
