//! What a host of the protocol is told, and how its calls reach the tools.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Implementation, ListPromptsResult, ListToolsResult, PaginatedRequestParams, Prompt, PromptMessage,
    Role, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::error::ToolError;
use crate::options::{Options, ToolSet};
use crate::progress::Progress;
use crate::prompts::PROMPTS;
use crate::session::Session;
use crate::tools::all;
use crate::tools::graders::missing;

/// Bytes of the arguments of a call.
const ARGUMENTS: usize = 8 << 20;

/// Calls of all hosts at a time.
const CALLS: usize = 32;

/// What every host is told first.
const INSTRUCTIONS: &str = "\
Tools that train a language model on this machine by reinforcement learning, supervised fine-tuning and preferences. \
Work as a researcher does: look at data and at the model before training, write a grader and check it on examples, score \
held-out tasks first, take small steps, read answers and not only numbers, change one thing at a time. When every group of \
answers earns the same there is nothing to learn from: the tools say so, and what to do.";

/// The tools as a server of the protocol. Clones share one session.
#[derive(Clone)]
pub struct TrainingTools {
    session: Arc<Session>,
    calls: Arc<Semaphore>,
    /// What this machine lacks, which every host is told.
    missing: Option<String>,
}

impl TrainingTools {
    /// Makes the directories that are missing, and looks whether this machine has what the tools need.
    ///
    /// # Errors
    /// If they cannot be made.
    pub async fn open(options: Options) -> Result<Self, ToolError> {
        let missing = missing(&options).await;
        Ok(Self { session: Arc::new(Session::open(options)?), calls: Arc::new(Semaphore::new(CALLS)), missing })
    }

    /// What this machine lacks for some of the tools, and how to get it.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Has whatever is trained end, its checkpoints kept.
    pub async fn close(&self) {
        self.session.close().await;
    }

    fn tools(&self) -> ToolSet {
        self.session.options.tools
    }

    async fn called(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<String, ToolError> {
        let tools = all(self.tools());
        let Some(tool) = tools.iter().find(|tool| tool.name == request.name) else {
            let known = tools.iter().map(|tool| tool.name.to_owned()).collect();
            return Err(ToolError::Unknown { kind: "tool", name: request.name.into_owned(), known });
        };
        let Ok(_place) = self.calls.try_acquire() else {
            return Err(ToolError::Refused(format!("busy: {CALLS} calls are at work; call again when one has ended")));
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let length = arguments.to_string().len();
        if length > ARGUMENTS {
            let why =
                format!("they have {length} bytes, and may have {ARGUMENTS}: write data to a file, and name that");
            return Err(ToolError::Arguments { tool: tool.name, why });
        }
        let token = context.meta.get_progress_token();
        let progress = Progress::new(token.map(|token| (context.peer.clone(), token)));
        tokio::select! {
            answer = tool.call(&self.session, arguments, &progress) => answer,
            () = context.ct.cancelled() => Err(ToolError::Refused("the call was cancelled".to_owned())),
        }
    }
}

impl ServerHandler for TrainingTools {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_prompts().build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("fulgurite", env!("CARGO_PKG_VERSION"));
        let missing =
            self.missing().map_or(String::new(), |missing| format!("\n\nMissing on this machine: {missing}."));
        info.instructions = Some(format!("{INSTRUCTIONS}{missing}"));
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |tool: &crate::tools::Tool| {
            let mut described = Tool::new(tool.name, tool.about, tool.schema());
            let mut annotations = ToolAnnotations::new();
            annotations.read_only_hint = Some(tool.only_looks);
            annotations.destructive_hint = Some(false);
            described.annotations = Some(annotations);
            described
        };
        Ok(ListToolsResult::with_all_items(all(self.tools()).iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = match self.called(request, context).await {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(error) => {
                let mut refused = CallToolResult::error(vec![ContentBlock::text(error.to_string())]);
                refused.structured_content = error.data();
                refused
            }
        };
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = PROMPTS.iter().map(|prompt| Prompt::new(prompt.name, Some(prompt.about), None));
        Ok(ListPromptsResult::with_all_items(prompts.collect()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let Some(prompt) = PROMPTS.iter().find(|prompt| prompt.name == request.name) else {
            let known = PROMPTS.iter().map(|prompt| prompt.name.to_owned()).collect();
            let unknown = ToolError::Unknown { kind: "prompt", name: request.name, known };
            return Err(ErrorData::invalid_params(unknown.to_string(), None));
        };
        let message = PromptMessage::new_text(Role::User, prompt.text);
        Ok(GetPromptResult::new(vec![message]).with_description(prompt.about).into())
    }
}
