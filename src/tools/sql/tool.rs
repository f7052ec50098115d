//! Loading SQL tools from a directory, preparing them under the butler's role, running them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio_postgres::Column;
use tokio_postgres::error::{DbError, ErrorPosition};
use tokio_postgres::types::{ToSql, Type};

use super::header::{Header, Returns, Use};
use super::statement::Statement;
use super::values::{TextParam, row_object, row_value, shows};
use crate::ToolFileError;
use crate::call::{ToolCall, ToolError};
use crate::definition::{Definition, Effect, Meta};
use crate::header_parts::{load, tool_name};
use crate::tool::{Tool, handler};
use store::lexer::{forbidden, line_of};
use store::{Lease, StoreError, describe};

/// A tool's file, read and checked as far as that goes without a database.
#[derive(Debug)]
pub struct SqlTool {
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) header: Header,
    pub(super) statement: Statement,
}

/// Most rows that one call returns; lists are paged.
pub(super) const MAX_ROWS: usize = 1000;

impl SqlTool {
    /// Reads one file's text.
    pub(super) fn parse(file: &Path, text: &str, of: Use) -> Result<Self, ToolFileError> {
        let fail = |line: usize, problem: String| ToolFileError { file: file.to_owned(), line, problem };
        let name = tool_name(file)?;
        let header = Header::parse(text, of).map_err(|(line, p)| fail(line, p))?;
        let statement = Statement::parse(&header.sql).map_err(|(line, p)| fail(header.lines + line, p))?;
        if let Some(f) = forbidden(&header.sql, false).into_iter().next() {
            return Err(fail(header.lines + f.line, format!("{} can't be used here; use {}", f.word, f.instead)));
        }
        for param in &statement.params {
            if !header.args.iter().any(|(a, _)| a == param) {
                let at = header.sql.find(&format!(":{param}")).unwrap_or(0);
                return Err(fail(header.lines + line_of(&header.sql, at), format!(":{param} is not among the args")));
            }
        }
        for (arg, _) in &header.args {
            if !statement.params.contains(arg) {
                return Err(fail(header.line_of(arg), format!("args.{arg} is not used by the statement")));
            }
        }
        Ok(Self { name, file: file.to_owned(), header, statement })
    }

    /// The JSON Schema of its arguments.
    pub fn schema(&self) -> &Value {
        &self.header.schema
    }

    pub(super) fn fail(&self, line: usize, problem: impl Into<String>) -> ToolFileError {
        ToolFileError { file: self.file.clone(), line, problem: problem.into() }
    }

    pub(super) fn db_error(&self, e: &tokio_postgres::Error) -> ToolFileError {
        let line = match e.as_db_error().and_then(DbError::position) {
            Some(ErrorPosition::Original(at)) => {
                let at = usize::try_from(*at).unwrap_or(1).saturating_sub(1);
                self.statement.sql.chars().take(at).filter(|c| *c == '\n').count() + 1
            }
            _ => 1,
        };
        self.fail(self.header.lines + line, describe(e))
    }
}

/// A parameter of a statement: its name, its type and what stands for it where nothing is given.
pub(super) type Parameter = (String, Type, Option<Value>);

impl SqlTool {
    /// Whether rows of these columns can be shown.
    pub(super) fn can_be_shown(&self, columns: &[Column]) -> Result<(), ToolFileError> {
        let Some(column) = columns.iter().find(|column| !shows(column.type_())) else { return Ok(()) };
        let problem = format!("column {}: the type {} can't be shown; cast it to text", column.name(), column.type_());
        Err(self.fail(self.header.begin(), problem))
    }

    /// The parameters of the prepared statement, in their order.
    pub(super) fn parameters(&self, types: &[Type]) -> Vec<Parameter> {
        let default = |name: &str| self.header.args.iter().find(|(a, _)| a == name).and_then(|(_, d)| d.clone());
        let params = self.statement.params.iter().zip(types.iter().cloned());
        params.map(|(name, ty)| (name.clone(), ty, default(name))).collect()
    }

    /// The arguments, to check what is given for them.
    pub(super) fn arguments(&self) -> Result<Definition, ToolFileError> {
        let header = &self.header;
        Definition::new(&self.name, &header.description, header.schema.clone(), Meta::read())
            .map_err(|e| self.fail(1, e.to_string()))
    }
}

/// The values of a statement's parameters, as they are bound.
pub(super) fn bound(params: &[Parameter], args: &Map<String, Value>) -> Vec<TextParam> {
    params.iter().map(|(name, ty, default)| TextParam::new(args.get(name).or(default.as_ref()), ty)).collect()
}

/// Reads every `*.sql` of a tools directory, in the order of the names. All mistakes are returned, not only the first.
pub fn load_dir(dir: &Path, of: Use) -> Result<Vec<SqlTool>, Vec<ToolFileError>> {
    load(dir, "sql", |file, text| SqlTool::parse(file, text, of))
}

/// Prepares the tools on a connection of the butler's role and gives them their definitions.
pub async fn prepare(lease: &mut Lease, tools: Vec<SqlTool>) -> Result<Vec<Tool>, Vec<ToolFileError>> {
    let functions = functions(lease).await.map_err(|e| {
        let file = tools.first().map(|t| t.file.clone()).unwrap_or_default();
        vec![ToolFileError { file, line: 1, problem: describe(&e) }]
    })?;
    let (mut ready, mut wrong) = (Vec::new(), Vec::new());
    for tool in tools {
        match prepare_one(lease, tool, &functions).await {
            Ok(tool) => ready.push(tool),
            Err(e) => wrong.push(e),
        }
    }
    if wrong.is_empty() { Ok(ready) } else { Err(wrong) }
}

/// What is known of the functions that tools may call.
pub(super) struct Functions {
    /// May write: declared volatile, but for some of PostgreSQL's own that only are not repeatable.
    pub volatile: Vec<String>,
    /// The household's own, whatever they are declared.
    pub own: Vec<String>,
}

pub(super) async fn functions(lease: &mut Lease) -> Result<Functions, tokio_postgres::Error> {
    let rows = lease
        .query(
            "SELECT p.proname::text, bool_or(p.provolatile = 'v' AND p.proname NOT IN
                        ('random', 'gen_random_uuid', 'clock_timestamp', 'timeofday', 'pg_sleep')),
                    bool_or(n.nspname NOT IN ('pg_catalog', 'shared'))
             FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
             WHERE n.nspname <> 'information_schema' AND (p.provolatile = 'v' OR n.nspname NOT IN ('pg_catalog', 'shared'))
             GROUP BY 1",
            &[],
        )
        .await?;
    let pick = |i: usize| rows.iter().filter(|r| r.get::<_, bool>(i)).map(|r| r.get(0)).collect();
    Ok(Functions { volatile: pick(1), own: pick(2) })
}

async fn prepare_one(lease: &mut Lease, mut tool: SqlTool, functions: &Functions) -> Result<Tool, ToolFileError> {
    let statement = lease.prepare(&tool.statement.sql).await.map_err(|e| tool.db_error(&e))?;
    let columns = statement.columns();
    if tool.header.returns != Returns::None && columns.is_empty() {
        let line = tool.header.line_of("returns");
        return Err(tool.fail(line, "the statement returns nothing; add RETURNING, or say `returns: none`"));
    }
    tool.can_be_shown(columns)?;
    let calls = |list: &[String]| tool.statement.functions.iter().any(|f| list.contains(f));
    let calls_volatile = calls(&functions.volatile);
    let calls_own = calls(&functions.own);
    let seen = tool.statement.writes || calls_volatile;
    let effect = match tool.header.meta.effect {
        Some(Effect::None) if seen => {
            let line = tool.header.line_of("meta");
            return Err(tool.fail(line, "meta.effect is none, but the statement writes"));
        }
        Some(declared) => declared,
        None if seen => Effect::Once,
        None => Effect::None,
    };
    tool.header.meta.effect = Some(effect);
    let def =
        Definition::new(&tool.name, &tool.header.description, tool.header.schema.clone(), tool.header.meta.clone())
            .map_err(|e| tool.fail(1, e.to_string()))?
            .with_examples(std::mem::take(&mut tool.header.examples));
    let params = tool.parameters(statement.params());
    let run = Arc::new(Runner {
        sql: tool.statement.sql,
        params,
        returns: tool.header.returns,
        writes: effect != Effect::None,
        calls_own,
    });
    Ok(Tool::new(
        &Arc::new(def),
        handler(move |call| {
            let run = run.clone();
            async move { run.run(call).await }
        }),
    ))
}

/// A prepared tool at work.
struct Runner {
    sql: String,
    params: Vec<Parameter>,
    returns: Returns,
    writes: bool,
    /// Calls functions of the household's own, whose bodies nobody here has read.
    calls_own: bool,
}

impl Runner {
    async fn run(&self, call: ToolCall) -> Result<Value, ToolError> {
        let values = bound(&self.params, &call.args);
        let params: Vec<&(dyn ToSql + Sync)> = values.iter().map(|v| v as &(dyn ToSql + Sync)).collect();
        let mut lease = call.lease().await?;
        let rows = if self.writes {
            call.effect_on(&mut lease, &self.sql, &params).await
        } else if self.calls_own {
            // The server itself holds it to what it was taken for.
            lease.query_read_only(&self.sql, &params).await
        } else {
            lease.read(&self.sql, &params).await
        };
        if self.writes || self.calls_own {
            // A function or trigger may have changed the connection's settings; the next lease sets its own again.
            lease.forget_scope();
        }
        let rows = rows.map_err(refusal)?;
        drop(lease);
        let shown = |e| ToolError::Store(StoreError::Query { step: "reading the result", source: e });
        let zone = call.store.time_zone();
        match self.returns {
            Returns::None => Ok(json!({"status": "ok"})),
            Returns::Value => match rows.first() {
                Some(row) => row_value(row, zone).map_err(shown),
                None => Ok(Value::Null),
            },
            Returns::Row => match rows.first() {
                Some(row) => row_object(row, zone).map_err(shown),
                None => Ok(json!({"found": false})),
            },
            Returns::Rows => {
                let shown_rows = rows.iter().take(MAX_ROWS).map(|r| row_object(r, zone));
                Ok(Value::Array(shown_rows.collect::<Result<_, _>>().map_err(shown)?))
            }
        }
    }
}

/// What the data or a RAISE of the butler's own functions refuses is the trade's answer, not a failure.
pub(super) fn refusal(e: tokio_postgres::Error) -> ToolError {
    let Some(db) = e.as_db_error() else {
        return ToolError::Store(StoreError::Query { step: "running the tool", source: e });
    };
    let code = db.code().code();
    let constraint = db.constraint().unwrap_or_default();
    let refused = match &code[..2] {
        "22" => Some(("invalid_value", db.message().to_owned())),
        "23" => Some(match code {
            "23505" => ("already_exists", format!("There is such a row already ({constraint}).")),
            "23503" => ("not_found", format!("What this refers to does not exist ({constraint}).")),
            "23502" => ("missing_value", format!("{} is needed.", db.column().unwrap_or("A value"))),
            _ => ("invalid_value", format!("The value is not allowed ({constraint}).")),
        }),
        _ if code == "P0001" => Some(("refused", db.message().to_owned())),
        _ if code == "57014" => Some(("timeout", "The statement took too long and was stopped.".to_owned())),
        _ => None,
    };
    match refused {
        Some((code, mut message)) => {
            if let Some(hint) = db.hint() {
                message = format!("{message} {hint}");
            }
            ToolError::refused(code, message)
        }
        None => ToolError::Store(StoreError::Query { step: "running the tool", source: e }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> (usize, String) {
        let e = SqlTool::parse(Path::new("t/some_tool.sql"), text, Use::Tool).unwrap_err();
        (e.line, e.problem)
    }

    #[test]
    fn arguments_and_parameters_must_match() {
        let head = "/*---\ndescription: d\nargs:\n  a: {type: string}\nreturns: row\n---*/\n";
        assert!(SqlTool::parse(Path::new("t/x.sql"), &format!("{head}SELECT :a::text"), Use::Tool).is_ok());
        let (line, p) = problem(&format!("{head}SELECT :a::text,\n  :b"));
        assert!(line == 8 && p.contains(":b"), "{line} {p}");
        let (_, p) = problem(&format!("{head}SELECT 1"));
        assert!(p.contains("args.a"), "{p}");
        let (line, p) = problem(&format!("{head}SELECT :a::text,\n now()"));
        assert!(line == 8 && p.contains("shared.clock()"), "{line} {p}");
    }
}
