//! The files that `notify` sends along: texts that the call writes, and attachments that the butler was sent.

use serde::Deserialize;

use base::Label;
use outbox::{MOST_BYTES, MOST_FILES, OutFile};
use tools::{Attached, ToolCall, ToolError, attachment};

/// What goes along.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub files: Vec<OutFile>,
    /// The label of what the call did not write itself: it is for the owner alone.
    pub holds: Option<Label>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: Option<String>,
    text: Option<String>,
    storage_ref: Option<String>,
}

/// Reads what the call's argument `files` names. What an attachment holds counts as shown to the session: nobody looked
/// whether it is.
pub(super) async fn carried(call: &ToolCall) -> Result<Carried, ToolError> {
    let Some(wanted) = call.args.get("files") else { return Ok(Carried::default()) };
    let wanted: Vec<Wanted> =
        serde_json::from_value(wanted.clone()).map_err(|e| ToolError::refused("invalid_arguments", e.to_string()))?;
    if wanted.len() > MOST_FILES {
        let why = format!("Nothing was sent: {MOST_FILES} files go along at most.");
        return Err(ToolError::refused("invalid_arguments", why));
    }
    let (mut carried, mut bytes) = (Carried::default(), 0);
    for Wanted { name, text, storage_ref } in wanted {
        let file = match (name, text, storage_ref) {
            (Some(name), Some(text), None) => OutFile::new(&name, None, text.into_bytes()),
            (name, None, Some(storage_ref)) => {
                let Attached { media_type, filename, content, label } =
                    attachment(call, &storage_ref, MOST_BYTES).await?;
                carried.holds = Some(carried.holds.map_or_else(|| label.clone(), |held| held.join(&label)));
                let name = name.or(filename).unwrap_or_default();
                OutFile::new(&name, Some(&media_type), content)
            }
            _ => {
                let why = "Each of files has a name and a text, or the storage_ref of an attachment.";
                return Err(ToolError::refused("invalid_arguments", why));
            }
        };
        bytes += file.content.len();
        if file.content.is_empty() || bytes > MOST_BYTES {
            let most = MOST_BYTES / (1024 * 1024);
            let why =
                format!("Nothing was sent: no file may be empty, and all of them together have at most {most} MiB.");
            return Err(ToolError::refused("invalid_arguments", why));
        }
        carried.files.push(file);
    }
    Ok(carried)
}
