// A hermes-host with a separate home folder, on free ports.
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const START_MS = 20_000;

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export class Host {
  static async make(isolation) {
    const host = new Host();
    host.folder = mkdtempSync(join(tmpdir(), "hermes-browser-"));
    host.home = join(host.folder, "home");
    mkdirSync(host.home, { mode: 0o700 });
    [host.page, host.status] = [await freePort(), await freePort()];
    host.config = join(host.folder, "plugins.toml");
    writeFileSync(
      host.config,
      `[host]\nstatus = "127.0.0.1:${host.status}"\nplugins_dir = "plugins"\nisolation = "${isolation}"\n\n[session]\noutbound_dirs = ["${host.folder}"]\n\n[agent]\nruntime = "echo"\ntest_words = true\n\n`
        + `[adapter.webchat]\nlisten = "127.0.0.1:${host.page}"\nupload_bytes_max = 100000\n`,
      { mode: 0o600 },
    );
    return host;
  }

  /** Starts the host and resolves to the link that it prints. */
  start() {
    this.said = "";
    this.child = spawn(join(process.env.HERMES_BIN, "hermes-host"), ["--config", this.config, "--home", this.home, "run"], {
      env: { PATH: process.env.PATH, HOME: this.folder },
      stdio: ["ignore", "pipe", "pipe"],
    });
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no link within ${START_MS} ms:\n${this.said}`)), START_MS);
      const look = (piece) => {
        this.said += piece;
        // The output is not a terminal, so it shows the address without the token.
        if (!/http:\/\/127\.0\.0\.1:\d+\/\?token=…/.test(this.said)) return;
        clearTimeout(timer);
        const arguments_ = ["--config", this.config, "--home", this.home, "webchat", "link"];
        execFile(join(process.env.HERMES_BIN, "hermes-host"), arguments_, (error, said) => {
          const link = /http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]+/.exec(said);
          if (link) resolve(link[0]); else reject(error ?? new Error(said));
        });
      };
      this.child.stdout.setEncoding("utf8").on("data", look);
      this.child.stderr.setEncoding("utf8").on("data", look);
      this.child.on("exit", (code) => { clearTimeout(timer); reject(new Error(`the host ended with ${code}:\n${this.said}`)); });
    });
  }

  async stop(signal = "SIGTERM") {
    if (!this.child || this.child.exitCode !== null || this.child.signalCode) return;
    const ended = new Promise((resolve) => this.child.on("exit", resolve));
    this.child.kill(signal);
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 40_000);
    await ended;
    clearTimeout(timer);
  }

  forget() {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
