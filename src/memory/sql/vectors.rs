//! Memories without a vector of the present model.

use store::StoreError;
use uuid::Uuid;

use super::Rows;

store::row! {
    /// A memory without its vector.
    pub struct Unembedded {
        pub kind: String,
        pub id: Uuid,
        pub about: Option<String>,
        pub predicate: Option<String>,
        pub content: String,
    }
}

impl Unembedded {
    /// What of it is embedded.
    pub fn spoken(&self) -> String {
        memory_index::rank::spoken_memory(self.about.as_deref(), self.predicate.as_deref(), &self.content)
    }
}

/// At most so many of them, the newest first.
pub async fn unembedded(
    from: &mut dyn Rows,
    kinds: &[&str],
    model: &str,
    most: i32,
) -> Result<Vec<Unembedded>, StoreError> {
    let sql = "SELECT kind, id, about, predicate, content FROM memory_unembedded($1, $2, $3)";
    Ok(from.rows(sql, &[&kinds, &model, &most]).await?.iter().map(Unembedded::from).collect())
}

/// Gives a memory its vector.
pub async fn give_vector(tx: &mut dyn Rows, memory: &Unembedded, model: &str, vector: &[i8]) -> Result<(), StoreError> {
    let bytes: Vec<u8> = vector.iter().map(|n| n.cast_unsigned()).collect();
    tx.rows("SELECT memory_vector($1, $2, $3, $4)", &[&memory.kind, &memory.id, &bytes, &model]).await?;
    Ok(())
}
