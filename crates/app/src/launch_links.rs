//! Resolves the symbolic links in the paths of a chat agent's `launch_run` calls, so that the run that a person is
//! asked about names the paths that agents really get. This is done here because the deciders do not access the file
//! system.

use crate::context_paths::with_real_paths;
use crate::session::TeamBackends;
use althing_engine::{LAUNCH_RUN, read_launch};
use althing_protocol::{
    AgentId, Backend, BackendError, BackendInfo, BoxFuture, DeltaSink, ModelRequest, Reply, ToolCall,
};
use serde_json::Value;
use std::sync::Arc;

pub(crate) fn resolve_links(backends: &mut TeamBackends, agent: &AgentId) {
    if let Some(backend) = backends.backends.get_mut(agent) {
        *backend = Arc::new(ResolvingBackend(backend.clone()));
    }
}

struct ResolvingBackend(Arc<dyn Backend>);

impl Backend for ResolvingBackend {
    fn info(&self) -> &BackendInfo {
        self.0.info()
    }

    fn least_cost_usd(&self, request: &ModelRequest) -> Option<f64> {
        self.0.least_cost_usd(request)
    }

    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        on_delta: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Reply, BackendError>> {
        Box::pin(async move {
            let mut reply = self.0.call(request, on_delta).await?;
            for call in reply.tool_calls.iter_mut().filter(|call| call.name == LAUNCH_RUN) {
                resolve(call).await;
            }
            Ok(reply)
        })
    }
}

/// An invalid call stays as it is; it is refused later.
async fn resolve(call: &mut ToolCall) {
    let Ok(Value::Object(mut arguments)) = serde_json::from_str(&call.arguments) else { return };
    let Ok(launch) = read_launch(&arguments) else { return };
    let named = launch.context_paths.clone();
    let resolved = tokio::task::spawn_blocking(move || with_real_paths(launch).context_paths).await;
    let Some(paths) = resolved.ok().filter(|paths| *paths != named) else { return };
    if let Ok(paths) = serde_json::to_value(paths) {
        arguments.insert("context_paths".to_owned(), paths);
        call.arguments = Value::Object(arguments).to_string();
    }
}
