use fulgurite_types::Message;
use serde_json::{Value, json};

/// Words of the made conversations: as many as a small vocabulary can learn, of one to four syllables.
const WORDS: usize = 1500;
const SYLLABLES: [&str; 24] = [
    "an", "ber", "co", "da", "el", "fi", "ga", "hor", "in", "ju", "ka", "lo", "mi", "ne", "or", "pre", "qui", "ra",
    "si", "ton", "u", "ver", "wa", "yl",
];

/// Texts that are the same in every run, and that look like what agents say: words, numbers, code and JSON.
#[derive(Debug)]
pub struct Writer {
    state: u64,
    words: Vec<String>,
}

impl Writer {
    /// A writer at its beginning.
    pub fn new() -> Self {
        let mut this = Self { state: 1, words: Vec::new() };
        let word = |this: &mut Self| (0..=this.below(4)).map(|_| SYLLABLES[this.below(SYLLABLES.len())]).collect();
        this.words = (0..WORDS).map(|_| word(&mut this)).collect();
        this
    }

    /// A number below `end`, by a linear congruential generator (the constants are Knuth's, of MMIX).
    fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) % end as u64) as usize
    }

    /// A sentence. Some words are far more common than others.
    fn sentence(&mut self) -> String {
        let mut words: Vec<String> = Vec::new();
        for _ in 0..8 + self.below(12) {
            let word = match self.below(20) {
                0 => self.below(100_000).to_string(),
                1 => {
                    let (left, right) = (self.below(WORDS), self.below(WORDS));
                    format!("`{}_{}()`", self.words[left], self.words[right])
                }
                _ => {
                    let rank = self.below(WORDS) * self.below(WORDS) / WORDS;
                    self.words[rank].clone()
                }
            };
            words.push(word);
        }
        format!("{}.", words.join(" "))
    }

    /// A text of some sentences.
    pub fn text(&mut self, sentences: usize) -> String {
        (0..sentences).map(|_| self.sentence()).collect::<Vec<_>>().join(" ")
    }

    fn result(&mut self) -> String {
        let rows: Vec<Value> =
            (0..4).map(|_| json!({"path": format!("src/{}.rs", self.text(1)), "line": self.below(900)})).collect();
        json!({"rows": rows, "next": null, "complete": true}).to_string()
    }
}

/// The tools of a made conversation, as OpenAI's clients declare them.
pub fn tools() -> Vec<Value> {
    let tool = |name: &str, field: &str| {
        let parameters = json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]});
        json!({"type": "function", "function": {"name": name, "description": "A tool.", "parameters": parameters}})
    };
    vec![tool("search", "query"), tool("read", "path")]
}

/// The beginning of a conversation.
pub fn beginning(writer: &mut Writer) -> Vec<Message> {
    vec![Message::text("system", writer.text(4)), Message::text("user", writer.text(3))]
}

/// Adds a turn of the assistant that calls a tool, and the tool's result.
pub fn add_turn(messages: &mut Vec<Message>, writer: &mut Writer) {
    let id = format!("call_{}", messages.len());
    let mut call = Message::text("assistant", writer.text(3));
    call.tool_calls = serde_json::from_value(json!([{
        "id": id, "type": "function",
        "function": {"name": "search", "arguments": json!({"query": writer.text(1)}).to_string()},
    }]))
    .unwrap_or_default();
    messages.push(call);
    let mut result = Message::text("tool", writer.result());
    result.tool_call_id = Some(id);
    messages.push(result);
}
