//! Bounds on a template's syntax, held before it is parsed: the parser and all that follows it recurse.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Templates of models have some ten thousand bytes.
const LONGEST: usize = 1 << 20;

/// How deep brackets, operators, conditions and blocks may lie in each other.
const DEEPEST: usize = 200;

/// Refuses a template that is longer or nested deeper than any model's.
pub(crate) fn check_syntax_depth(source: &str, syntax: SyntaxConfig) -> Result<(), String> {
    if source.len() > LONGEST {
        return Err(format!("the template has {} bytes; at most {LONGEST} are read", source.len()));
    }
    let mut depth = SyntaxDepth::default();
    for token in tokenize(source, false, syntax) {
        // The parser says what is wrong with it.
        let Ok((token, span)) = token else { return Ok(()) };
        depth.take(&token);
        if depth.now() > DEEPEST {
            return Err(format!(
                "the template is nested more than {DEEPEST} deep (line {} of the template)",
                span.start_line
            ));
        }
    }
    Ok(())
}

#[derive(Default)]
struct SyntaxDepth {
    /// Open blocks, each with its branches.
    blocks: Vec<usize>,
    /// Open brackets of the tag, each with the operators since its last comma; the first is the tag itself.
    levels: Vec<usize>,
    /// Whether the next word says what the tag is.
    begins_tag: bool,
    /// Whether the tag is a `set` that has had no `=` yet.
    opens_set: bool,
}

impl SyntaxDepth {
    fn now(&self) -> usize {
        self.blocks.iter().sum::<usize>() + self.levels.iter().map(|operators| operators + 1).sum::<usize>()
    }

    fn take(&mut self, token: &Token<'_>) {
        match token {
            Token::TemplateData(_) => {}
            Token::VariableStart => self.levels = vec![0],
            Token::BlockStart => {
                self.levels = vec![0];
                self.begins_tag = true;
            }
            Token::VariableEnd | Token::BlockEnd => {
                self.levels.clear();
                if std::mem::take(&mut self.opens_set) {
                    self.blocks.push(1);
                }
            }
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => self.levels.push(0),
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                if self.levels.len() > 1 {
                    self.levels.pop();
                }
                // `a[0][0]`, `f()()`: one on another.
                self.operator();
            }
            Token::Comma | Token::Colon => {
                if let Some(operators) = self.levels.last_mut() {
                    *operators = 0;
                }
            }
            Token::Assign => self.opens_set = false,
            Token::Ident(name) if std::mem::take(&mut self.begins_tag) => self.tag(name),
            Token::Ident("not" | "and" | "or" | "in" | "is" | "if" | "else") => self.operator(),
            Token::Ident(_) | Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => {
            }
            _ => self.operator(),
        }
    }

    fn operator(&mut self) {
        if let Some(operators) = self.levels.last_mut() {
            *operators += 1;
        }
    }

    fn tag(&mut self, name: &str) {
        match name {
            "for" | "if" | "macro" | "call" | "filter" | "with" | "autoescape" | "block" => self.blocks.push(1),
            "set" => self.opens_set = true,
            "elif" => {
                if let Some(branches) = self.blocks.last_mut() {
                    *branches += 1;
                }
            }
            "endfor" | "endif" | "endmacro" | "endcall" | "endfilter" | "endwith" | "endautoescape" | "endblock"
            | "endset" => drop(self.blocks.pop()),
            _ => {}
        }
    }
}
