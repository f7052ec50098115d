//! Jobs in SQL: a statement that only reads, and what is done with its rows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_postgres::types::ToSql;

use super::header::{Notify, Then, Use};
use super::tool::{Functions, MAX_ROWS, Parameter, SqlTool, bound, functions, load_dir};
use super::values::row_object;
use crate::ToolFileError;
use crate::definition::{ArgumentsError, Definition};
use base::text::of_value;
use base::{Label, Seen, TenantId};
use store::{Lease, Store, StoreError, describe};

/// A job of a butler's directory, prepared.
pub struct SqlJob {
    sql: String,
    params: Vec<Parameter>,
    arguments: Definition,
    then: Then,
}

/// Why a job came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("job_args: {0}")]
    Arguments(ArgumentsError),
    #[error("{0}")]
    Statement(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads the jobs of a directory and prepares them on a connection of the butler's role.
pub async fn prepare_jobs(lease: &mut Lease, dir: &Path) -> Result<BTreeMap<String, SqlJob>, Vec<ToolFileError>> {
    let files = load_dir(dir, Use::Job)?;
    if files.is_empty() {
        return Ok(BTreeMap::new());
    }
    let functions = functions(lease)
        .await
        .map_err(|e| vec![ToolFileError { file: dir.to_owned(), line: 1, problem: describe(&e) }])?;
    let (mut ready, mut wrong) = (BTreeMap::new(), Vec::new());
    for file in files {
        let name = file.name.clone();
        match prepare(lease, file, &functions).await {
            Ok(job) => {
                ready.insert(name, job);
            }
            Err(e) => wrong.push(e),
        }
    }
    if wrong.is_empty() { Ok(ready) } else { Err(wrong) }
}

/// The jobs of a directory with what they take as arguments, and what is wrong with the others: as far as that is known
/// without a database.
pub fn check_jobs(dir: &Path) -> Result<BTreeMap<String, Definition>, Vec<ToolFileError>> {
    let mut wrong = Vec::new();
    let mut jobs = BTreeMap::new();
    for file in load_dir(dir, Use::Job)? {
        match file.checked(false).and_then(|()| file.arguments()) {
            Ok(arguments) => drop(jobs.insert(file.name.clone(), arguments)),
            Err(e) => wrong.push(e),
        }
    }
    if wrong.is_empty() { Ok(jobs) } else { Err(wrong) }
}

impl SqlTool {
    /// What holds of every job, whatever tables there are. `calls_writer`: a function that it calls may write.
    fn checked(&self, calls_writer: bool) -> Result<(), ToolFileError> {
        if self.statement.writes || calls_writer {
            return Err(
                self.fail(self.header.begin(), "a job only reads; what it finds goes to a message or a session")
            );
        }
        if let Some(Then::Notify(notify)) = &self.header.then
            && let Some(name) = notify.head.as_deref().and_then(|h| placeholders(h).into_iter().find(|n| n != "count"))
        {
            return Err(self.fail(
                self.header.line_of("notify"),
                format!("notify.head: only {{count}} is known there, not {{{name}}}"),
            ));
        }
        Ok(())
    }
}

async fn prepare(lease: &mut Lease, file: SqlTool, functions: &Functions) -> Result<SqlJob, ToolFileError> {
    file.checked(file.statement.functions.iter().any(|f| functions.volatile.contains(f)))?;
    let statement = lease.prepare(&file.statement.sql).await.map_err(|e| file.db_error(&e))?;
    file.can_be_shown(statement.columns())?;
    let Some(then) = file.header.then.clone() else {
        return Err(file.fail(1, "a job has either notify or prompt: what is done with its rows"));
    };
    if let Then::Notify(notify) = &then {
        for name in placeholders(&notify.template) {
            if !statement.columns().iter().any(|c| c.name() == name) {
                let line = file.header.line_of("notify");
                return Err(file.fail(line, format!("notify.template: {{{name}}} is not a column of the statement")));
            }
        }
    }
    let arguments = file.arguments()?;
    let params = file.parameters(statement.params());
    Ok(SqlJob { sql: file.statement.sql, params, arguments, then })
}

impl SqlJob {
    /// What is done with the rows.
    pub fn then(&self) -> &Then {
        &self.then
    }

    /// The rows that there are now for this tenant, in a transaction that can't write; and how far they are believed.
    pub async fn rows(
        &self,
        store: &Store,
        tenant: &TenantId,
        args: Option<&Value>,
    ) -> Result<(Vec<Map<String, Value>>, Label), JobError> {
        let mut args = args.and_then(Value::as_object).cloned().unwrap_or_default();
        self.arguments.validate(&mut args).map_err(JobError::Arguments)?;
        let values = bound(&self.params, &args);
        let params: Vec<&(dyn ToSql + Sync)> = values.iter().map(|v| v as &(dyn ToSql + Sync)).collect();
        let seen = Arc::new(Seen::default());
        let mut lease = store.tenant(tenant).await?.telling(&seen);
        let rows = lease.query_read_only(&self.sql, &params).await;
        // A function may have changed the connection's settings; the next lease sets its own again.
        lease.forget_scope();
        drop(lease);
        let rows = rows.map_err(|e| match e.as_db_error() {
            Some(db) => JobError::Statement(db.message().to_owned()),
            None => JobError::Store(StoreError::Query { step: "running a job", source: e }),
        })?;
        let shown = |e| JobError::Store(StoreError::Query { step: "reading a job's rows", source: e });
        let mut found = Vec::new();
        for row in rows.iter().take(MAX_ROWS) {
            if let Value::Object(object) = row_object(row, store.time_zone()).map_err(shown)? {
                found.push(object);
            }
        }
        Ok((found, seen.label()))
    }
}

impl Notify {
    /// The messages for these rows: one for all, or one each.
    pub fn messages(&self, rows: &[Map<String, Value>]) -> Vec<String> {
        let lines = rows.iter().map(|row| fill(&self.template, |name| row.get(name).map(of_value)));
        let count = if self.each { 1 } else { rows.len() };
        let head = self.head.as_deref().map(|h| fill(h, |_| Some(count.to_string())));
        let with_head = |text: String| head.as_ref().map_or_else(|| text.clone(), |head| format!("{head}\n{text}"));
        match self.each {
            true => lines.map(with_head).collect(),
            false if rows.is_empty() => Vec::new(),
            false => vec![with_head(lines.collect::<Vec<_>>().join("\n"))],
        }
    }
}

/// The names in braces.
fn placeholders(template: &str) -> Vec<String> {
    let mut names = Vec::new();
    fill(template, |name| {
        names.push(name.to_owned());
        None
    });
    names
}

/// Replaces each `{name}`; what comes in is never looked at again, so that a row's braces are text.
fn fill(template: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let inner = &rest[open + 1..];
        let name = inner.split_once('}').map(|(name, _)| name);
        let is_name = |n: &&str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let Some(name) = name.filter(is_name) else {
            out.push('{');
            rest = inner;
            continue;
        };
        out.push_str(&value(name).unwrap_or_default());
        rest = &inner[name.len() + 1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn templates_take_columns_and_nothing_else() {
        let row = |name: &str, due: Value| json!({"name": name, "due": due}).as_object().cloned().unwrap();
        let rows = [row("Rent", json!("2026-12-01")), row("{due}", json!(3)), row("Tax", Value::Null)];
        let mut notify = Notify {
            template: "{name}: {due} { x } {".to_owned(),
            head: Some("{count} bills".to_owned()),
            each: false,
            priority: base::Priority::Medium,
        };
        let all = "3 bills\nRent: 2026-12-01 { x } {\n{due}: 3 { x } {\nTax:  { x } {";
        assert_eq!(notify.messages(&rows), [all]);
        assert_eq!(notify.messages(&[]), Vec::<String>::new());
        notify.each = true;
        assert_eq!(notify.messages(&rows[..1]), ["1 bills\nRent: 2026-12-01 { x } {"]);
        assert_eq!(placeholders("{a} {b c} {} {d}"), ["a", "d"]);
    }
}
