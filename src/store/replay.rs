//! Making a household's schemas again from the history of another database.
//!
//! The texts come from the histories, not from the roster: what a database is made of stays known when a file of the
//! roster was changed or has gone. They run in the order in which they ran the first time.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use tokio_postgres::{GenericClient, Transaction};

use super::error::{MigrationError, StoreError};
use super::migrate::{Chain, digest, ensure_history, error_line, search_path};
use super::roles::{grants, owner_name, role_statements};
use super::sql;
use base::{ButlerName, Secret};

crate::row! {
    /// A butler's place in a database.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Place {
        pub butler: String,
        pub schema: String,
    }
}

/// A file that was applied to a schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    pub schema: String,
    pub chain: String,
    pub version: i32,
    pub name: String,
    pub sql: String,
    /// Its place among all files of its schema.
    pub ordinal: i32,
    /// How many files `shared` had then.
    pub after_shared: i32,
}

impl Applied {
    fn file(&self) -> String {
        format!("{}/{:03}_{} (schema {})", self.chain, self.version, self.name, self.schema)
    }
}

/// Which butlers have a schema.
pub async fn places(client: &impl GenericClient) -> Result<Vec<Place>, StoreError> {
    let rows =
        client.query(sql::ALL_PLACES, &[]).await.map_err(StoreError::query("reading which butlers there are"))?;
    Ok(rows.iter().map(Place::from).collect())
}

/// All schemas of a household, `shared` first: those of butlers, and those that were a butler's once.
pub async fn schemas(client: &impl GenericClient) -> Result<Vec<String>, StoreError> {
    let rows = client.query(sql::SCHEMAS, &[]).await.map_err(StoreError::query("reading which schemas there are"))?;
    Ok(std::iter::once("shared".to_owned()).chain(rows.iter().map(|r| r.get("schema"))).collect())
}

/// Everything that was applied to these schemas, in the order in which it can be applied again.
pub async fn history(client: &impl GenericClient, schemas: &[String]) -> Result<Vec<Applied>, StoreError> {
    let mut found = Vec::new();
    for schema in schemas {
        let step = || StoreError::query("reading what the schemas were made of");
        let there =
            client.query_one(sql::TABLE_EXISTS, &[&format!("\"{schema}\".schema_migrations")]).await.map_err(step())?;
        // A butler that never got through its first boot.
        if !there.get::<_, bool>("found") {
            continue;
        }
        let rows = client.query(&sql::history(schema), &[]).await.map_err(step())?;
        found.extend(rows.iter().map(|r| Applied {
            schema: schema.clone(),
            chain: r.get("chain"),
            version: r.get("version"),
            name: r.get("name"),
            sql: r.get("sql"),
            ordinal: r.get("ordinal"),
            after_shared: r.get("after_shared"),
        }));
    }
    // A file of `shared` comes before whatever was applied after it, in all schemas; within a schema nothing moves.
    found.sort_by_key(|a| match a.schema.as_str() {
        "shared" => (a.ordinal, 0, String::new(), 0),
        schema => (a.after_shared, 1, schema.to_owned(), a.ordinal),
    });
    Ok(found)
}

/// Refuses a history that this binary could not go on with.
pub fn check(places: &[Place], applied: &[Applied]) -> Result<(), MigrationError> {
    for a in applied {
        // A butler's own chain may have the name of a shipped one.
        if places.iter().any(|p| p.schema == a.schema && p.butler == a.chain) {
            continue;
        }
        let chain = Chain::shipped(&a.chain)?;
        let Some(known) = chain.migrations.last().map(|m| m.version) else { continue };
        match chain.migrations.iter().find(|m| m.version == a.version) {
            None => {
                let (schema, chain) = (a.schema.clone(), a.chain.clone());
                return Err(MigrationError::Newer { schema, chain, found: a.version, known });
            }
            Some(m) if digest(&m.sql) != digest(&a.sql) => {
                return Err(MigrationError::Changed { file: m.file.clone(), schema: a.schema.clone() });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Makes schemas, roles and tables again in an empty database. The histories are left empty: their rows come with all
/// others.
pub async fn rebuild(
    tx: &Transaction<'_>,
    master_key: &Secret<Vec<u8>>,
    schemas: &[String],
    places: &[Place],
    applied: &[Applied],
) -> Result<(), StoreError> {
    let step = || StoreError::query("making the schemas");
    tx.batch_execute(sql::GROUND).await.map_err(step())?;
    tx.execute(sql::LOCK_ROLES, &[]).await.map_err(step())?;
    let mut butlers = HashMap::new();
    let mut owners = HashMap::new();
    for place in places {
        let butler = ButlerName::new(&place.butler).map_err(|e| StoreError::Unexpected(e.to_string()))?;
        tx.batch_execute(&role_statements(&place.schema, &butler, master_key)).await.map_err(step())?;
        owners.insert(place.schema.as_str(), owner_name(&butler));
        butlers.insert(place.schema.as_str(), butler);
    }
    // A schema without a butler is nobody's but the daemon's role's; its files have an owner all the same.
    for schema in schemas.iter().filter(|s| *s != "shared" && !butlers.contains_key(s.as_str())) {
        let owner = format!("roster__{schema}");
        tx.batch_execute(&sql::forsaken(schema, &owner)).await.map_err(step())?;
        owners.insert(schema, owner);
    }
    let mut begun = HashSet::new();
    for a in applied {
        if begun.insert(a.schema.as_str()) {
            ensure_history(tx, &a.schema).await.map_err(step())?;
        }
        let failed = |source: tokio_postgres::Error| MigrationError::Failed {
            file: a.file(),
            line: error_line(&a.sql, &source),
            source,
        };
        tx.batch_execute(&format!("SET LOCAL search_path = {}", search_path(&a.schema))).await.map_err(failed)?;
        let own = places.iter().any(|p| p.schema == a.schema && p.butler == a.chain);
        let shipped = !own && !Chain::shipped(&a.chain)?.migrations.is_empty();
        match owners.get(a.schema.as_str()).filter(|_| !shipped) {
            Some(owner) => roster_file(tx, a, owner).await.map_err(failed)?,
            None => tx.batch_execute(&a.sql).await.map_err(failed)?,
        }
        if let Some(butler) = butlers.get(a.schema.as_str()) {
            tx.batch_execute(&grants(&a.schema, butler)).await.map_err(failed)?;
        }
    }
    refuse_deferred(tx, schemas).await
}

/// Applies a file of a roster with the rights of whoever owns what it makes.
async fn roster_file(tx: &Transaction<'_>, file: &Applied, owner: &str) -> Result<(), tokio_postgres::Error> {
    let known: Vec<u32> = tx.query_one(sql::TABLES_OF, &[&file.schema]).await?.get("tables");
    as_owner(tx, &file.schema, owner, &file.sql).await?;
    tx.batch_execute(sql::SERVERS_OWN).await?;
    tx.execute(sql::KEEP_ROWS, &[&file.schema, &known]).await?;
    Ok(())
}

/// Runs statements of a roster, or on tables of a roster, as the role that owns them; returns how many rows the last
/// one touched. They run in a function of that role, in which the server refuses to become anybody else.
pub async fn as_owner(
    tx: &Transaction<'_>,
    schema: &str,
    owner: &str,
    statements: &str,
) -> Result<i64, tokio_postgres::Error> {
    tx.batch_execute(&sql::make_hand(schema, owner)).await?;
    let rows = tx.query_one(&sql::use_hand(schema), &[&statements]).await?.get("rows");
    tx.batch_execute(&sql::drop_hand(schema)).await?;
    Ok(rows)
}

/// The tables of these schemas that belong to somebody else than the daemon's role: schema, table, owner.
pub async fn roster_tables(
    client: &impl GenericClient,
    schemas: &[String],
) -> Result<Vec<(String, String, String)>, StoreError> {
    let rows = client.query(sql::ROSTER_TABLES, &[&schemas]).await.map_err(StoreError::query("looking for tables"))?;
    Ok(rows.iter().map(|r| (r.get("schema"), r.get("name"), r.get("owner"))).collect())
}

/// What waits for the end of the transaction would run with the daemon's rights then.
async fn refuse_deferred(tx: &Transaction<'_>, schemas: &[String]) -> Result<(), StoreError> {
    let found = tx.query_opt(sql::DEFERRED, &[&schemas]).await.map_err(StoreError::query("looking at the tables"))?;
    match found {
        None => Ok(()),
        Some(row) => {
            let table: String = row.get("name");
            Err(StoreError::Unexpected(format!("{table} has a trigger that can be deferred, which no roster may make")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(schema: &str, chain: &str, version: i32, sql: &str) -> Applied {
        let (schema, chain, name) = (schema.to_owned(), chain.to_owned(), "x".to_owned());
        Applied { schema, chain, version, name, sql: sql.to_owned(), ordinal: 1, after_shared: 1 }
    }

    #[test]
    fn what_this_binary_could_not_go_on_with_is_refused() {
        let first = Chain::shipped("core").unwrap().migrations[0].clone();
        check(&[], &[applied("health", "core", 1, &first.sql), applied("health", "health", 1, "own")]).unwrap();
        let newer = check(&[], &[applied("health", "core", 999, "x")]).unwrap_err();
        assert!(newer.to_string().contains("newer than this butlerd knows"), "{newer}");
        let changed = check(&[], &[applied("health", "core", 1, "x")]).unwrap_err();
        assert!(changed.to_string().contains("with another text"), "{changed}");
        // The chain of a butler that is called like a shipped one.
        let place = Place { butler: "core".to_owned(), schema: "core".to_owned() };
        check(&[place], &[applied("core", "core", 1, "own")]).unwrap();
    }
}
