//! `fulgurite chat`: talk to a model, line by line.

pub mod arguments;

use std::io::{BufRead, IsTerminal};

use anyhow::{Context, Result};
use fulgurite_lab::chat::{Reply, ask};
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_terminal::paint::Paint;
use fulgurite_training::chat_host::{ChatHost, ChatTarget};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::arguments::ChatArguments;

/// Talks until standard input ends.
pub async fn chat(arguments: ChatArguments) -> Result<()> {
    let client = Client::builder().build().context("cannot make an HTTP client")?;
    let mut interruptions = Interruptions::listen()?;
    let target = ChatTarget {
        target: &arguments.target,
        before: arguments.before,
        model: arguments.model.as_deref(),
        api_key_env: arguments.api_key_env.as_deref(),
    };
    let host = tokio::select! {
        host = ChatHost::open(&target, &client, &TerminalNotices) => host?,
        () = interruptions.next() => return Ok(()),
    };
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let person = terminal && arguments.prompts.is_empty() && !arguments.json;
    let mut talk = Talk {
        client,
        host,
        json: arguments.json,
        system: arguments.system,
        temperature: arguments.temperature,
        max_tokens: arguments.max_tokens,
        messages: Vec::new(),
        last: Reply::default(),
    };
    if person {
        let paint = Paint::for_stdout();
        output::line(paint.dim(&format!("{}; /reset, /tokens, /quit", talk.host.description)));
    }
    if !arguments.prompts.is_empty() {
        let outcome = talk.ask_each(&arguments.prompts, &mut interruptions).await;
        talk.host.close().await?;
        return outcome;
    }
    let mut lines = lines();
    let outcome = loop {
        if person {
            output::piece(Paint::for_stdout().bold("> "));
        }
        let line = tokio::select! {
            line = lines.recv() => line,
            () = interruptions.next() => None,
        };
        let Some(line) = line else { break Ok(()) };
        match talk.take(&line?, &mut interruptions).await {
            Ok(Next::GoOn) => {}
            Ok(Next::Quit) => break Ok(()),
            // A person asks again; a script has to know.
            Err(error) if person => output::note(format_args!("error: {error:#}")),
            Err(error) => break Err(error),
        }
    };
    if person {
        output::line("");
    }
    talk.host.close().await?;
    outcome
}

/// What comes after a line.
enum Next {
    GoOn,
    Quit,
}

/// A conversation.
struct Talk {
    client: Client,
    host: ChatHost,
    json: bool,
    system: Option<String>,
    temperature: Option<f64>,
    max_tokens: u64,
    /// What was said, without what the model is told first.
    messages: Vec<Value>,
    last: Reply,
}

impl Talk {
    async fn take(&mut self, line: &str, interruptions: &mut Interruptions) -> Result<Next> {
        match line.trim() {
            "" => {}
            "/quit" => return Ok(Next::Quit),
            "/reset" => {
                self.messages.clear();
                self.last = Reply::default();
            }
            "/tokens" => self.show_tokens(),
            command if is_command(command) => {
                output::note(format_args!("there is no {command}: there are /reset, /tokens and /quit"));
            }
            text => self.say(text, interruptions).await?,
        }
        Ok(Next::GoOn)
    }

    /// Asks one after another, each in a conversation of its own.
    async fn ask_each(&mut self, prompts: &[String], interruptions: &mut Interruptions) -> Result<()> {
        for prompt in prompts {
            self.messages.clear();
            self.say(prompt, interruptions).await?;
        }
        Ok(())
    }

    /// Has the model answer; what it said so far counts if it is cut short.
    async fn say(&mut self, text: &str, interruptions: &mut Interruptions) -> Result<()> {
        self.messages.push(json!({ "role": "user", "content": text }));
        let request = self.request();
        let json = self.json;
        let mut reply = Reply::default();
        let mut print = |piece: &str| {
            if !json {
                output::piece(piece);
            }
        };
        let outcome = tokio::select! {
            outcome = ask(&self.client, &self.host.endpoint, &request, &mut reply, &mut print) => outcome,
            () = interruptions.next() => Ok(()),
        };
        if let Err(error) = outcome {
            // What was not answered was not said.
            self.messages.pop();
            return Err(error.into());
        }
        match self.json {
            true => output::line(reply.to_json()),
            false => output::line(""),
        }
        self.messages.push(json!({ "role": "assistant", "content": reply.text }));
        self.last = reply;
        Ok(())
    }

    fn request(&self) -> Value {
        let system = self.system.iter().map(|text| json!({ "role": "system", "content": text }));
        let messages: Vec<Value> = system.chain(self.messages.iter().cloned()).collect();
        let mut request = json!({ "model": self.host.model, "messages": messages, "max_tokens": self.max_tokens });
        if let Some(temperature) = self.temperature {
            request["temperature"] = json!(temperature);
        }
        request
    }

    fn show_tokens(&self) {
        if self.last.tokens.is_empty() {
            let why = if self.last.text.is_empty() { "nothing was said yet" } else { "the host tells no tokens" };
            output::note(format_args!("{why}"));
        }
        for token in &self.last.tokens {
            let id = token.id.map_or("-".to_owned(), |id| id.to_string());
            output::line(format!("{id:>8} {:>9.4}  {:?}", token.logprob, token.text));
        }
    }
}

/// Whether a line is a command rather than something that is said: one word after a slash, in letters.
fn is_command(line: &str) -> bool {
    line.strip_prefix('/').is_some_and(|word| !word.is_empty() && word.bytes().all(|c| c.is_ascii_alphabetic()))
}

/// The lines of standard input. A thread of its own reads them, which the end of the command does not wait for.
fn lines() -> mpsc::Receiver<Result<String>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let line = line.context("cannot read standard input");
            // Nobody listens any more: the command ends.
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_only_if_it_looks_like_one() {
        assert!(is_command("/tokesn") && is_command("/help"));
        assert!(!is_command("/") && !is_command("/etc/passwd") && !is_command("1/2"));
    }
}
