//! What is dangerous, as data.
//!
//! A pattern is a name and what must stand among its arguments, in any order. A word
//! of a pattern lists alternatives with `|`, a `*` stands for anything, and a single
//! letter behind a dash is found in any bundle of short options (`-R` in `-fRv`). The
//! operator's own patterns are written the same way.

/// Commands that need approval: the pattern and what it does.
pub const COMMANDS: &[(&str, &str)] = &[
    ("rm", "it deletes files"),
    ("rmdir", "it deletes folders"),
    ("unlink|shred|srm|wipe", "it deletes files"),
    ("truncate", "it cuts files"),
    ("cp", "it can overwrite files"),
    ("mv|rename", "it moves files and can overwrite others"),
    ("install", "it overwrites files"),
    ("rsync", "it can overwrite and delete files"),
    ("dd", "it writes to files and devices byte by byte"),
    ("mkfs*|mkswap|wipefs|fdisk|sfdisk|cfdisk|parted|gdisk|sgdisk|blkdiscard|hdparm", "it changes a disk"),
    ("chmod|chown|chgrp|setfacl -R|--recursive", "it changes the rights of whole folders"),
    ("chmod 777|0777|a+w|a+rwx|o+w|+s|u+s|g+s|4755|4777|2755|6755", "it opens files to everybody"),
    ("find -delete|-fprint*|-fls", "it deletes or writes files"),
    (
        "systemctl stop|restart|disable|mask|kill|isolate|reboot|poweroff|halt|kexec|edit|set-default|revert|try-restart|reload-or-restart|emergency|rescue|suspend|hibernate",
        "it stops services",
    ),
    ("service|rc-service|sv|initctl stop|restart|disable|down|kill|force-*", "it stops services"),
    ("shutdown|reboot|halt|poweroff|telinit|init", "it stops the machine"),
    ("killall|pkill|skill", "it ends processes by name"),
    ("kill -9|-KILL|-SIGKILL -1", "it ends every process"),
    ("git reset --hard|--merge|--keep", "it throws changes away"),
    (
        "git push -f|--force|--force-with-lease|--force-if-includes|--mirror|--delete|--prune|-d|+*|:*",
        "it rewrites what others see",
    ),
    ("git clean -f|--force", "it deletes files"),
    ("git checkout|restore|switch -f|--force|--discard-changes|.|:/*|--", "it throws changes away"),
    ("git branch|tag -D|-d|--delete|-f|--force", "it deletes branches or tags"),
    ("git stash drop|clear", "it throws changes away"),
    ("git reflog|update-ref|filter-branch|filter-repo|gc expire|delete|-d|--prune*|--all|*", "it rewrites the history"),
    ("git *alias.*|*sshcommand*|*pager*|*editor*|*hookspath*|*fsmonitor*", "it lets git run other commands"),
    ("docker|podman rm|rmi|prune|kill|down|stop", "it removes containers or what they hold"),
    ("kubectl|oc delete|drain|replace|scale", "it changes a cluster"),
    ("terraform|tofu|pulumi destroy|apply|down|up", "it changes what is deployed"),
    ("crontab -r|-|-e", "it replaces scheduled work"),
    ("useradd|userdel|usermod|groupdel|groupmod|passwd|chpasswd|visudo|chsh", "it changes accounts"),
    ("iptables|ip6tables|nft|ufw|firewall-cmd", "it changes the firewall"),
    ("hermes-host", "it commands the host that runs this agent"),
    ("apt|apt-get|dnf|yum|zypper|apk remove|purge|autoremove|erase|del", "it removes packages"),
    ("pacman -R*", "it removes packages"),
    ("swapoff|umount|losetup|cryptsetup|lvremove|vgremove|pvremove|zfs|zpool|btrfs|mdadm", "it changes a disk"),
    ("modprobe|insmod|rmmod|sysctl -w|-r|--remove|--write|*=*", "it changes the kernel"),
    ("mapfile|readarray -C", "it runs code for every line"),
    ("compgen|complete -C|-F|-W", "it runs code"),
    ("bind -x", "it runs code"),
    ("fc", "it runs commands again"),
    ("split --filter", "it runs a command"),
    (
        "tar|bsdtar --checkpoint-action|--to-command|-I|-F|--use-compress-program|--info-script|--new-volume-script|--rsh-command",
        "it runs a command",
    ),
    ("ssh|scp|sftp -F|-S|*proxycommand*|*localcommand*|*knownhostscommand*", "it runs a command"),
    ("git rm", "it deletes files"),
    ("git grep -O|--open-files-in-pager", "it runs a command"),
    ("git --upload-pack|--receive-pack|--exec|--extcmd|ext::*", "it runs a command"),
    ("git clone -u", "it runs a command"),
    (
        "git config *helper*|*.clean|*.smudge|*.process|*textconv*|*driver*|*.program|*external*|include*",
        "it lets git run other commands",
    ),
    ("rg --pre|--hostname-bin", "it runs a command"),
    ("docker|podman|nerdctl run|exec|create|cp|compose", "it runs a command elsewhere"),
    ("man -P|-H|--pager|--html", "it runs a command"),
    ("alias|enable|hash *=*|-f|-p", "it gives a command another meaning"),
];

/// Shells: what they are told is read as well.
pub const SHELLS: &[&str] = &["sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh"];

/// Programs of other languages, and the options behind which their code stands.
pub const INTERPRETERS: &[(&str, &[&str])] = &[
    ("python*", &["-c"]),
    ("pypy*", &["-c"]),
    ("perl*", &["-e", "-E", "-i"]),
    ("ruby*", &["-e", "-i"]),
    ("node", &["-e", "-p", "--eval", "--print"]),
    ("nodejs", &["-e", "-p", "--eval", "--print"]),
    ("bun", &["-e", "--eval"]),
    ("deno", &["eval", "repl"]),
    ("lua*", &["-e"]),
    ("tclsh*", &["-c"]),
    ("osascript", &["-e"]),
    ("expect", &["-c"]),
];

/// Programs that carry code in their arguments which this judge does not read.
pub const OPAQUE: &[&str] = &[
    "ed",
    "ex",
    "vi",
    "vim",
    "nvim",
    "emacs",
    "socat",
    "nc",
    "ncat",
    "at",
    "batch",
    "systemd-run",
    "parallel",
    "gdb",
    "lldb",
    "php",
    "tmux",
    "screen",
    "start-stop-daemon",
    "Rscript",
    "julia",
];

/// A command that runs another one, which stands among its arguments.
#[derive(Debug)]
pub struct Wrapper {
    /// Its name.
    pub name: &'static str,
    /// Options that are followed by a value of theirs.
    pub valued: &'static [&'static str],
    /// Options that are not.
    pub flags: &'static [&'static str],
    /// Arguments that stand before the command.
    pub before: usize,
    /// Whether more arguments come from elsewhere.
    pub appends: bool,
    /// Whether the command is handed to a shell as one text.
    pub joins: bool,
}

const fn wraps(
    name: &'static str,
    valued: &'static [&'static str],
    flags: &'static [&'static str],
    before: usize,
) -> Wrapper {
    Wrapper { name, valued, flags, before, appends: false, joins: false }
}

const NONE: &[&str] = &[];

/// Every wrapper that is known.
pub const WRAPPERS: &[Wrapper] = &[
    wraps(
        "sudo",
        &["-u", "-g", "-h", "-p", "-C", "-D", "-R", "-r", "-t", "-T", "-U", "--user", "--group", "--chdir"],
        &["-E", "-H", "-n", "-S", "-k", "-b", "-A", "-i", "-s", "-P", "-B"],
        0,
    ),
    wraps("doas", &["-u", "-C"], &["-n", "-s", "-L"], 0),
    wraps("pkexec", &["--user"], &["--disable-internal-agent"], 0),
    wraps("env", &["-u", "-C", "--unset", "--chdir"], &["-i", "-0", "-v", "-", "--ignore-environment"], 0),
    wraps("nohup", NONE, NONE, 0),
    wraps("nice", &["-n", "--adjustment"], NONE, 0),
    wraps("ionice", &["-c", "-n", "-p", "--class", "--classdata"], &["-t"], 0),
    wraps("chrt", &["-T", "-P", "-D"], &["-f", "-r", "-o", "-b", "-i", "-v"], 1),
    wraps("taskset", NONE, &["-c", "-a"], 1),
    wraps("timeout", &["-k", "-s", "--kill-after", "--signal"], &["-v", "--preserve-status", "--foreground"], 1),
    wraps("stdbuf", &["-i", "-o", "-e"], NONE, 0),
    wraps("setsid", NONE, &["-w", "-f", "-c"], 0),
    wraps("setpriv", NONE, NONE, 0),
    wraps("command", NONE, &["-p"], 0),
    wraps("builtin", NONE, NONE, 0),
    wraps("exec", &["-a"], &["-c", "-l"], 0),
    wraps("coproc", NONE, NONE, 0),
    wraps("time", &["-f", "-o", "--format", "--output"], &["-p", "-v", "-a"], 0),
    wraps("busybox", NONE, NONE, 0),
    wraps("toybox", NONE, NONE, 0),
    wraps("chroot", &["--userspec", "--groups"], NONE, 1),
    wraps("unshare", NONE, &["-r", "-m", "-n", "-p", "-f", "-u", "-i"], 0),
    wraps("nsenter", &["-t", "--target"], &["-a", "-m", "-n", "-p", "-u", "-i"], 0),
    wraps("flock", &["-w", "-E", "--timeout"], &["-n", "-x", "-s", "-u", "-o"], 1),
    wraps("strace", &["-e", "-o", "-p", "-s"], &["-f", "-c", "-t", "-v"], 0),
    wraps("ltrace", &["-e", "-o", "-p", "-s"], &["-f", "-c"], 0),
    wraps("fakeroot", NONE, NONE, 0),
    wraps("setarch", NONE, &["-R"], 1),
    wraps("linux32", NONE, NONE, 0),
    wraps("linux64", NONE, NONE, 0),
    wraps("prlimit", &["-p", "-o"], NONE, 0),
    wraps("systemd-inhibit", NONE, NONE, 0),
    wraps("systemd-cat", &["-t", "-p"], NONE, 0),
    wraps("dbus-run-session", NONE, NONE, 0),
    wraps("dbus-launch", NONE, NONE, 0),
    wraps("xvfb-run", NONE, &["-a"], 0),
    wraps("numactl", NONE, NONE, 0),
    wraps("valgrind", NONE, NONE, 0),
    wraps("ssh-agent", NONE, NONE, 0),
    wraps("tini", NONE, NONE, 0),
    wraps("sg", NONE, NONE, 1),
    wraps("unbuffer", NONE, &["-p"], 0),
    wraps("rlwrap", NONE, NONE, 0),
    wraps("proot", NONE, NONE, 0),
    wraps("bwrap", NONE, NONE, 0),
    wraps("firejail", NONE, NONE, 0),
    wraps("su", &["-s", "--shell", "-g"], &["-", "-l", "-p", "-m"], 1),
    wraps("runuser", &["-u", "-g", "-s"], &["-", "-l", "-p", "-m"], 0),
    wraps("script", NONE, &["-q", "-a", "-f", "-e"], 1),
    Wrapper { joins: true, ..wraps("watch", &["-n", "--interval"], &["-d", "-t", "-x", "-g", "-e", "-b", "-c"], 0) },
    Wrapper {
        joins: true,
        ..wraps(
            "ssh",
            &["-p", "-l", "-i", "-o", "-F", "-J", "-L", "-R", "-D", "-c", "-b", "-e", "-m", "-S", "-W", "-w"],
            &["-t", "-T", "-n", "-N", "-f", "-q", "-v", "-A", "-a", "-4", "-6", "-C", "-x", "-X"],
            1,
        )
    },
    Wrapper {
        appends: true,
        ..wraps(
            "xargs",
            &["-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E", "--max-args", "--max-procs", "--replace", "--delimiter"],
            &["-0", "-r", "-t", "-p", "-x", "--null", "--no-run-if-empty"],
            0,
        )
    },
];

/// Programs that only read what they are given.
pub const READERS: &[&str] = &[
    "cat",
    "ls",
    "head",
    "tail",
    "file",
    "stat",
    "wc",
    "grep",
    "rg",
    "less",
    "more",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "cmp",
    "diff",
    "strings",
    "xxd",
    "od",
    "hexdump",
    "du",
    "jq",
    "cut",
    "test",
    "[",
    "realpath",
    "readlink",
    "pdftotext",
    "exiftool",
    "identify",
    "ffprobe",
    "base64",
    "zcat",
    "unzip",
];
