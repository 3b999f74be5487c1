//! The reasons for a lost connection, and the meaning of close codes.

use hermes_adapter_net::ws::{Closed, WsError};

/// The reason for a lost connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Disconnect {
    /// The next connection may resume the session.
    Resumable(String),
    /// The same after a normal close of the gateway, which restarts that way. Some servers use it to end the session.
    NormalClose(String),
    /// The next connection needs a new session.
    SessionEnded(String),
    /// All shards need new sessions, because their number changes.
    Reshard(String),
    /// A person has to do something first.
    Fatal {
        /// The cause.
        reason: &'static str,
        /// The action that fixes it.
        remedy: &'static str,
    },
}

impl Disconnect {
    /// Returns the effect of a failure of an open connection.
    pub(crate) fn interrupted(error: &WsError) -> Self {
        Self::Resumable(format!("the gateway: {error}"))
    }

    /// Returns the effect of a failure to connect.
    pub(crate) fn unreachable(error: &WsError) -> Self {
        Self::Resumable(format!("the gateway (`gateway_url`) cannot be reached: {error}"))
    }

    /// Returns the consequence of a close code.
    /// <https://docs.discord.com/developers/topics/opcodes-and-status-codes#gateway-gateway-close-event-codes>
    pub(crate) fn from_close(closed: &Closed) -> Self {
        let with_code = |what: &str| match closed.code {
            Some(code) => format!("{what} ({code})"),
            None => what.to_owned(),
        };
        match closed.code {
            Some(4004) => Self::Fatal {
                reason: "Discord rejected the token (4004)",
                remedy: "copy the token of the bot from the Developer Portal (Bot, Reset Token) into `token` (or DISCORD_BOT_TOKEN)",
            },
            Some(4012) => Self::Fatal {
                reason: "Discord no longer supports this gateway version (4012)",
                remedy: "update the adapter, or put a supported version at the end of `base_url`",
            },
            Some(4013) => Self::Fatal {
                reason: "Discord does not know one of the intents (4013)",
                remedy: "update the adapter, or check that `base_url` and `gateway_url` belong to the same server",
            },
            Some(4014) => Self::Fatal {
                reason: "Discord does not allow the requested intents for this bot (4014)",
                remedy: "enable Message Content Intent in the Developer Portal (Bot, Privileged Gateway Intents), or set `message_content = false`",
            },
            Some(4010) => Self::Reshard(with_code("the gateway requires a different number of shards")),
            Some(4011) => Self::Reshard(with_code("the gateway requires more shards")),
            // These codes end a session only if the client sends them; the server sends them when it restarts.
            Some(1000 | 1001) => Self::NormalClose(with_code("the gateway closed the session")),
            Some(4003 | 4005 | 4007 | 4009) => Self::SessionEnded(with_code("the gateway ended the session")),
            Some(_) => Self::Resumable(with_code("the gateway closed the connection")),
            None => Self::Resumable("the connection to the gateway ended".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(code: u16) -> Disconnect {
        Disconnect::from_close(&Closed { code: Some(code), reason: String::new() })
    }

    #[test]
    fn each_close_code_leads_where_the_documentation_says() {
        for fatal in [4004, 4012, 4013, 4014] {
            assert!(matches!(code(fatal), Disconnect::Fatal { .. }), "{fatal}");
        }
        for over in [4003, 4005, 4007, 4009] {
            assert!(matches!(code(over), Disconnect::SessionEnded(_)), "{over}");
        }
        for over in [4010, 4011] {
            assert!(matches!(code(over), Disconnect::Reshard(_)), "{over}");
        }
        for goodbye in [1000, 1001] {
            assert!(matches!(code(goodbye), Disconnect::NormalClose(_)), "{goodbye}");
        }
        for resumable in [1006, 4000, 4001, 4002, 4008, 4999] {
            assert!(matches!(code(resumable), Disconnect::Resumable(_)), "{resumable}");
        }
        assert!(matches!(
            Disconnect::from_close(&Closed { code: None, reason: String::new() }),
            Disconnect::Resumable(_)
        ));
        let Disconnect::Fatal { remedy, .. } = code(4014) else { panic!("4014 needs a person") };
        assert!(remedy.contains("Message Content Intent") && remedy.contains("message_content = false"));
    }
}
