//! A butler's pages: statements that only read, for people to look at, and the cards of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::card::Card;
use super::header::{PageHead, Returns};
use super::page_files::load_pages;
use super::tool::{Functions, MAX_ROWS, Parameter, SqlTool, bound, functions, refusal};
use super::values::row_object;
use crate::ToolFileError;
use crate::call::ToolError;
use crate::definition::Definition;
use access::Caller;
use base::TenantId;
use store::{Lease, Store, StoreError, describe};

/// How long the statement of a page may run: somebody waits in front of it.
const WITHIN: Duration = Duration::from_secs(10);

/// A page of a butler, as people and programs are told of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ButlerPage {
    /// Below the butler's own address, such as `trips/next`.
    pub path: String,
    pub description: String,
    /// JSON Schema of the parameters, as of a tool's arguments.
    pub parameters: Value,
    pub returns: Returns,
    /// The columns of its rows, in the order of the statement.
    pub columns: Vec<String>,
    /// `None`: it is no card.
    pub card: Option<Card>,
}

/// What a page shows just now.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PageRows {
    pub columns: Vec<String>,
    /// At most 1,000; one at most of a page that returns a row or a value.
    pub rows: Vec<Map<String, Value>>,
    /// Whether there are more rows than these.
    pub truncated: bool,
}

/// Why a page can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("There is no page `{path}`. There are: {there}.")]
    Unknown { path: String, there: String },
    #[error("{0}.")]
    Parameters(String),
    /// The statement or a function of the butler's own says no.
    #[error("{message}")]
    Refused { code: &'static str, message: String },
    #[error("The page took longer than {} s and was stopped. Ask for less.", WITHIN.as_secs())]
    TooSlow,
    /// The label of what a page shows would not reach a session.
    #[error("Pages are for people; a session has tools.")]
    Session,
    /// Its files have mistakes.
    #[error("The pages of this butler can't be used: {0}")]
    Broken(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ButlerPage {
    /// The parameters out of words that somebody typed or that stand in an address, by their types. An empty word is
    /// nothing, as of a field that was left empty; a list is made by naming it several times. A word that is not of its
    /// parameter's type stays one, and is refused with it.
    ///
    /// # Errors
    /// A parameter that is no list stands there twice.
    pub fn typed(&self, words: &[(String, String)]) -> Result<Map<String, Value>, PageError> {
        let mut typed: Map<String, Value> = Map::new();
        for (name, word) in words.iter().filter(|(_, word)| !word.is_empty()) {
            let schema = &self.parameters["properties"][name.as_str()];
            if schema["type"] == "array" {
                let list = typed.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
                list.as_array_mut().into_iter().for_each(|list| list.push(value_of(word, &schema["items"])));
            } else if typed.insert(name.clone(), value_of(word, schema)).is_some() {
                return Err(PageError::Parameters(format!("{name} is given twice")));
            }
        }
        Ok(typed)
    }
}

/// A word as a value of this schema, if it is one.
fn value_of(word: &str, schema: &Value) -> Value {
    let read = match schema["type"].as_str() {
        Some("string") => None,
        _ => serde_json::from_str::<Value>(word).ok(),
    };
    let as_read = |value: &Value| match schema["type"].as_str() {
        Some("integer" | "number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("object") => value.is_object(),
        _ => true,
    };
    read.filter(as_read).unwrap_or_else(|| word.into())
}

/// A page, prepared.
struct SqlPage {
    about: ButlerPage,
    arguments: Definition,
    sql: String,
    params: Vec<Parameter>,
    /// Where its statement begins.
    place: (PathBuf, usize),
}

/// The pages of a butler, in the order of their files.
pub struct Pages {
    store: Store,
    pages: Vec<SqlPage>,
}

impl Pages {
    /// Reads the pages of a directory and prepares them under the butler's role.
    ///
    /// # Errors
    /// What is wrong with them; or the database's own trouble, as a mistake of the directory.
    pub async fn prepare(store: &Store, dir: &Path) -> Result<Self, Vec<ToolFileError>> {
        let failed = |why: String| vec![ToolFileError { file: dir.to_owned(), line: 1, problem: why }];
        let files = load_pages(dir)?;
        let mut prepared = Self { store: store.clone(), pages: Vec::new() };
        if files.is_empty() {
            return Ok(prepared);
        }
        let mut lease = store.tenant(&TenantId::owner()).await.map_err(|e| failed(e.to_string()))?;
        let functions = functions(&mut lease).await.map_err(|e| failed(describe(&e)))?;
        let mut wrong = Vec::new();
        for file in files {
            match prepare_one(&mut lease, file, &functions).await {
                Ok(page) => prepared.pages.extend(page),
                Err(e) => wrong.push(e),
            }
        }
        if wrong.is_empty() { Ok(prepared) } else { Err(wrong) }
    }

    /// What pages there are.
    pub fn all(&self) -> impl Iterator<Item = &ButlerPage> {
        self.pages.iter().map(|page| &page.about)
    }

    /// What a page shows this caller's tenant now. Nothing is put on record, because nothing is changed.
    pub async fn read(
        &self,
        caller: &Caller,
        path: &str,
        mut params: Map<String, Value>,
    ) -> Result<PageRows, PageError> {
        if caller.session().is_some() {
            return Err(PageError::Session);
        }
        let Some(page) = self.pages.iter().find(|page| page.about.path == path) else {
            let there: Vec<&str> = self.all().map(|page| page.path.as_str()).collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            return Err(PageError::Unknown { path: path.to_owned(), there });
        };
        page.arguments.validate(&mut params).map_err(|e| PageError::Parameters(e.to_string()))?;
        let mut lease = self.store.lease(&caller.context).await?;
        page.rows(&mut lease, &self.store, &params).await
    }

    /// Runs each page that needs nothing to be given, for what only running it tells: that a function writes after all.
    pub async fn tried(&self) -> Result<Vec<ToolFileError>, StoreError> {
        let mut wrong = Vec::new();
        for page in &self.pages {
            if page.about.parameters["required"].as_array().is_some_and(|needed| !needed.is_empty()) {
                continue;
            }
            let mut lease = self.store.tenant(&TenantId::owner()).await?;
            let why = match page.rows(&mut lease, &self.store, &Map::new()).await {
                Ok(_) => continue,
                Err(PageError::Store(StoreError::Query { source, .. })) if source.as_db_error().is_some() => {
                    describe(&source)
                }
                Err(PageError::Store(e)) => return Err(e),
                Err(e) => e.to_string(),
            };
            let (file, line) = page.place.clone();
            let problem = format!("it can't be shown where there is no data yet and nothing is asked for: {why}");
            wrong.push(ToolFileError { file, line, problem });
        }
        Ok(wrong)
    }
}

/// `None`: the file is no page, which `load_pages` does not give.
async fn prepare_one(
    lease: &mut Lease,
    mut file: SqlTool,
    functions: &Functions,
) -> Result<Option<SqlPage>, ToolFileError> {
    let Some(PageHead { path, card }) = file.header.page.take() else { return Ok(None) };
    let begin = file.header.begin();
    if let Some(writer) = file.statement.functions.iter().find(|f| functions.volatile.contains(f)) {
        let problem = format!(
            "a page only reads, and {writer}() may write; if it does not, declare it STABLE in a migration of this butler"
        );
        return Err(file.fail(begin, problem));
    }
    // One row more than is shown tells whether there are more. On lines of its own, because the statement may end with a
    // comment.
    let most = if file.header.returns == Returns::Rows { MAX_ROWS + 1 } else { 1 };
    let sql = format!("SELECT * FROM (\n{}\n) page LIMIT {most}", file.statement.sql);
    let statement = match lease.prepare(&sql).await {
        Ok(statement) => statement,
        Err(e) => {
            // By itself it says where it is wrong, unless it is only wrong for a page.
            lease.prepare(&file.statement.sql).await.map_err(|e| file.db_error(&e))?;
            let problem = format!("a page is one SELECT, or WITH and a SELECT ({})", describe(&e));
            return Err(file.fail(begin, problem));
        }
    };
    file.can_be_shown(statement.columns())?;
    let columns: Vec<(&str, &Type)> = statement.columns().iter().map(|c| (c.name(), c.type_())).collect();
    if let Some((twice, _)) =
        columns.iter().enumerate().find(|(n, c)| columns[..*n].iter().any(|b| b.0 == c.0)).map(|(_, c)| c)
    {
        return Err(file.fail(begin, format!("two columns are called {twice}; give one another name with AS")));
    }
    if file.header.returns == Returns::Value && columns.len() != 1 {
        let problem = format!("returns: a value is one column, and the statement has {}", columns.len());
        return Err(file.fail(file.header.line_of("returns"), problem));
    }
    if let Some(card) = &card {
        let told = card.check(&columns);
        told.map_err(|(key, why)| file.fail(file.header.line_in("card", key), format!("card.{key}: {why}")))?;
    }
    let about = ButlerPage {
        path,
        description: file.header.description.clone(),
        parameters: file.header.schema.clone(),
        returns: file.header.returns,
        columns: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
        card,
    };
    let (arguments, params) = (file.arguments()?, file.parameters(statement.params()));
    Ok(Some(SqlPage { about, arguments, sql, params, place: (file.file, begin) }))
}

impl SqlPage {
    async fn rows(&self, lease: &mut Lease, store: &Store, args: &Map<String, Value>) -> Result<PageRows, PageError> {
        let values = bound(&self.params, args);
        let params: Vec<&(dyn ToSql + Sync)> = values.iter().map(|v| v as &(dyn ToSql + Sync)).collect();
        let found = lease.query_read_only_within(&self.sql, &params, WITHIN).await;
        // A function may have changed the connection's settings; the next lease sets its own again.
        lease.forget_scope();
        let writes = |e: &tokio_postgres::Error| e.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION);
        if found.as_ref().err().is_some_and(writes) {
            let message = "The page would change something, and pages only read. Nothing was changed.".to_owned();
            return Err(PageError::Refused { code: "read_only", message });
        }
        let found = found.map_err(|e| match refusal(e) {
            ToolError::Refused { code: "timeout", .. } => PageError::TooSlow,
            ToolError::Refused { code, message } => PageError::Refused { code, message },
            ToolError::Store(e) => PageError::Store(e),
            other => PageError::Refused { code: "refused", message: other.to_string() },
        })?;
        let shown = |e| PageError::Store(StoreError::Query { step: "reading a page's rows", source: e });
        let mut rows = Vec::new();
        for row in found.iter().take(MAX_ROWS) {
            if let Value::Object(row) = row_object(row, store.time_zone()).map_err(shown)? {
                rows.push(row);
            }
        }
        Ok(PageRows { columns: self.about.columns.clone(), rows, truncated: found.len() > MAX_ROWS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_become_values_of_their_parameters_types() {
        let property = |of: &str| json!({"type": of});
        let page = ButlerPage {
            path: "p".to_owned(),
            description: "d".to_owned(),
            parameters: json!({"properties": {
                "days": property("integer"), "name": property("string"), "all": property("boolean"),
                "least": property("number"), "tags": {"type": "array", "items": property("string")}, "any": {}}}),
            returns: Returns::Rows,
            columns: Vec::new(),
            card: None,
        };
        let typed = |words: &[(&str, &str)]| {
            let words: Vec<_> = words.iter().map(|(n, w)| ((*n).to_owned(), (*w).to_owned())).collect();
            page.typed(&words).map(Value::Object).map_err(|e| e.to_string())
        };
        for (words, values) in [
            (&[("days", "7"), ("name", "7"), ("all", "true")][..], json!({"days": 7, "name": "7", "all": true})),
            (&[("least", "0.5"), ("days", "seven")], json!({"least": 0.5, "days": "seven"})),
            (&[("days", ""), ("name", ""), ("any", "[1]")], json!({"any": [1]})),
            (&[("tags", "1"), ("tags", "b"), ("days", "true")], json!({"tags": ["1", "b"], "days": "true"})),
            (&[("other", "x")], json!({"other": "x"})),
        ] {
            assert_eq!(typed(words), Ok(values), "{words:?}");
        }
        assert_eq!(typed(&[("days", "1"), ("days", "2")]), Err("days is given twice.".to_owned()));
    }
}
