//! What a session is told as it begins: the memory block first, then the lines of modules, in one order and one budget.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::memory_hooks::MemoryHooks;
use base::{Audience, ButlerName, Trust};
use modules::{Lines, NamedOpening, estimate, open};
use sessions::{Memory, Recalled, Trigger};

/// All that speaks at the start of a butler's sessions.
pub(super) struct SessionStart {
    butler: ButlerName,
    memory: Option<Arc<MemoryHooks>>,
    openings: Vec<NamedOpening>,
    within: Duration,
}

impl SessionStart {
    /// `None`: nothing speaks there. `within`: how long a session waits for all of it.
    pub fn of(
        butler: &ButlerName,
        memory: Option<Arc<MemoryHooks>>,
        openings: Vec<NamedOpening>,
        within: Duration,
    ) -> Option<Arc<Self>> {
        (memory.is_some() || !openings.is_empty())
            .then(|| Arc::new(Self { butler: butler.clone(), memory, openings, within }))
    }

    /// What modules say, in their order, and who of them was too late. A stranger's session is told nothing, as memory
    /// tells it nothing.
    async fn lines(&self, trigger: &Trigger) -> (Vec<(String, Lines)>, Vec<String>) {
        if trigger.request.trust == Trust::Stranger {
            return Default::default();
        }
        // All of them within the same time.
        let until = tokio::time::Instant::now() + self.within;
        let asked = self.openings.iter().filter(|opening| opening.speaks()).map(|named| async move {
            match tokio::time::timeout_at(until, named.opening.source.lines(trigger)).await {
                Ok(lines) => Ok(lines.map(|lines| (named.module.clone(), lines))),
                Err(_) => {
                    let (butler, module) = (&self.butler, &named.module);
                    tracing::warn!(%butler, module, "a session starts without this module's lines: they came too late");
                    Err(named.module.clone())
                }
            }
        });
        let (mut told, mut late) = (Vec::new(), Vec::new());
        for answer in futures_util::future::join_all(asked).await {
            match answer {
                Ok(lines) => told.extend(lines.filter(|(_, lines)| may_be_told(trigger, lines))),
                Err(module) => late.push(module),
            }
        }
        (told, late)
    }
}

/// Whether a module's lines may stand at this start: they are the household's own, and other people's words would lower
/// the session's trust before it has asked for them.
fn may_be_told(trigger: &Trigger, lines: &Lines) -> bool {
    let label = trigger.request.label();
    label.audience == Audience::Household && lines.seen >= label.trust.min(Trust::System)
}

#[async_trait]
impl Memory for SessionStart {
    async fn recall(&self, trigger: &Trigger) -> Recalled {
        let remembered = async {
            match &self.memory {
                Some(memory) => memory.recall(trigger).await,
                None => Recalled::unasked(),
            }
        };
        let (recalled, (told, late)) = tokio::join!(remembered, self.lines(trigger));
        if told.is_empty() && late.is_empty() {
            return recalled;
        }
        let tokens = recalled.row.as_ref().and_then(|row| row["tokens"].as_u64()).and_then(|n| usize::try_from(n).ok());
        let memory = recalled.block.map(|block| {
            let tokens = tokens.unwrap_or_else(|| estimate(&block));
            (block, tokens)
        });
        let mut opened = open(memory, recalled.seen, told);
        opened.rows.extend(late.into_iter().map(|module| json!({"module": module, "state": "late"})));
        let mut row = recalled.row.unwrap_or_else(|| json!({"state": "off"}));
        if let Value::Object(row) = &mut row {
            if let Some((tokens, true)) = opened.memory {
                row.insert("tokens".to_owned(), json!(tokens));
                row.insert("cut".to_owned(), json!(true));
            }
            row.insert("lines".to_owned(), Value::Array(opened.rows));
        }
        Recalled { block: opened.block, seen: opened.seen, notes: opened.notes, row: Some(row) }
    }

    fn remembers(&self) -> bool {
        self.memory.is_some()
    }

    fn ended(&self) {
        if let Some(memory) = &self.memory {
            memory.ended();
        }
    }
}
