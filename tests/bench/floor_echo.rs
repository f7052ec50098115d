//! The floor of the channels: a bare bot that reacts to each message and says it again. It stores nothing.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::{Failed, bot_api};

/// Serves the bot of the Bot API at `args[0]` until its input is closed.
pub async fn run(args: &[String]) -> Result<(), Failed> {
    let url = args.first().ok_or("no address of a Bot API")?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bot = Bot { http: base::http_client(url).build()?, url: format!("{url}/bot{}", bot_api::TOKEN) };
    let (mut input, mut end) = (tokio::io::stdin(), [0u8; 64]);
    tokio::select! {
        _ = input.read(&mut end) => Ok(()),
        served = bot.serve() => served,
    }
}

struct Bot {
    http: reqwest::Client,
    url: String,
}

impl Bot {
    async fn serve(&self) -> Result<(), Failed> {
        let mut offset = 0;
        loop {
            let updates = self.call("getUpdates", &json!({"timeout": 25, "offset": offset})).await?;
            for update in updates.as_array().into_iter().flatten() {
                let (message, chat) = (&update["message"], &update["message"]["chat"]["id"]);
                let reaction = json!({"chat_id": chat, "message_id": message["message_id"],
                                      "reaction": [{"type": "emoji", "emoji": "👀"}]});
                self.call("setMessageReaction", &reaction).await?;
                self.call("sendMessage", &json!({"chat_id": chat, "text": message["text"]})).await?;
                offset = update["update_id"].as_i64().ok_or("an update without a number")? + 1;
            }
        }
    }

    async fn call(&self, method: &str, arguments: &Value) -> Result<Value, Failed> {
        let answer = self.http.post(format!("{}/{method}", self.url)).json(arguments).send().await?;
        let mut answer: Value = answer.json().await?;
        if answer["ok"] == true { Ok(answer["result"].take()) } else { Err(format!("{method}: {answer}").into()) }
    }
}
