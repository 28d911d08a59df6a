import { appendFile, chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { readIfThere } from '../../src/agent-core/util/files.ts'
import { temporaryFolder } from './temporary-folder.ts'

/**
 * launchctl of macOS 15 as far as one job needs it, as an executable of that name: it writes down how it is called, and says and ends with
 * what Apple's does. Its job is a process that sleeps, which it starts anew where it was killed, as KeepAlive has it.
 */
const script = `#!/bin/bash
dir=$(dirname "$0")
echo "$*" >> "$dir/calls"
verb=$1
fault=$(head -n 1 "$dir/faults/$verb" 2>/dev/null)
if [ -n "$fault" ]; then
  sed -i 1d "$dir/faults/$verb"
  echo "\${fault#* }" >&2
  exit "\${fault%% *}"
fi
start() {
  rm -f "$dir/exit" "$dir/pid"
  # Away from the group of this process, which is ended with it.
  setsid bash -c 'echo $$ > "$0/pid"; exec sleep 1000' "$dir" </dev/null >/dev/null 2>&1 &
  until [ -s "$dir/pid" ]; do sleep 0.01; done
}
runs() { [ -f "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; }
not_found() { printf 'Bad request.\\nCould not find service "%s" in domain for %s\\n' "\${1##*/}" "$2" >&2; exit 113; }
case $verb in
  print)
    [ -f "$dir/file" ] || not_found "$2" 'user gui: 501'
    printf '%s = {\\n\\tactive count = 1\\n\\tpath = %s\\n\\ttype = LaunchAgent\\n' "$2" "$(cat "$dir/file")"
    if runs; then printf '\\tstate = running\\n'; else printf '\\tstate = not running\\n'; fi
    printf '\\n\\tprogram = /usr/local/bin/metal-agent\\n\\targuments = {\\n\\t\\t/usr/local/bin/metal-agent\\n\\t\\t--state = pid = 1\\n\\t}\\n\\n'
    printf '\\tdefault environment = {\\n\\t\\tPATH => /usr/bin:/bin:/usr/sbin:/sbin\\n\\t}\\n\\n\\tdomain = gui/501 [100006]\\n\\tminimum runtime = 10\\n\\texit timeout = 335\\n\\truns = 1\\n'
    if runs; then printf '\\tpid = %s\\n' "$(cat "$dir/pid")"; fi
    printf '\\timmediate reason = speculative\\n\\tforks = 0\\n\\texecs = 1\\n\\tlast exit code = %s\\n' "$(cat "$dir/exit" 2>/dev/null || echo '(never exited)')"
    printf '\\n\\tspawn type = interactive (4)\\n\\tproperties = keepalive | runatload | inferred program\\n}\\n'
    ;;
  enable) ;;
  bootstrap)
    if [ -f "$dir/file" ]; then printf 'Bootstrap failed: 5: Input/output error\\nTry re-running the command as root for richer errors.\\n' >&2; exit 5; fi
    [ -f "$3" ] || { echo 'Bootstrap failed: 2: No such file or directory' >&2; exit 2; }
    echo "$3" > "$dir/file"; start ;;
  bootout)
    [ -f "$dir/file" ] || { echo 'Boot-out failed: 3: No such process' >&2; exit 3; }
    runs && kill "$(cat "$dir/pid")"
    rm -f "$dir/file" "$dir/pid" ;;
  kickstart)
    [ -f "$dir/file" ] || not_found "$2" 'user gui: 501'
    runs || start ;;
  kill)
    [ -f "$dir/file" ] || not_found "$3" 'user gui: 501'
    kill -KILL "$(cat "$dir/pid")"; start ;;
  *) echo "Unrecognized subcommand: $verb" >&2; exit 64 ;;
esac
`

export interface LaunchctlStandIn extends AsyncDisposable {
  /** To be looked for in, beside the folders of the system. */
  readonly folder: string
  /** How it was called, without the looks at the job. */
  calls(): Promise<string[]>
  /** What the next call of this verb says and ends with, in place of what it does. */
  fails(verb: string, code: number, says: string): Promise<void>
  /** Of its job; undefined where none runs. */
  pid(): Promise<number | undefined>
  /** The job ends by itself. */
  endJob(code: number): Promise<void>
}

export async function launchctlStandIn(): Promise<LaunchctlStandIn> {
  const { dir: folder, [Symbol.asyncDispose]: remove } = await temporaryFolder()
  await writeFile(path.join(folder, 'launchctl'), script)
  await chmod(path.join(folder, 'launchctl'), 0o755)
  const pid = async () => {
    const text = await readIfThere(path.join(folder, 'pid'))
    const found = Number(text ?? 0)
    return found > 0 && (await isAlive(found)) ? found : undefined
  }
  return {
    folder,
    pid,
    calls: async () =>
      ((await readIfThere(path.join(folder, 'calls'))) ?? '').split('\n').filter((call) => !/^(?:print |$)/.test(call)),
    fails: async (verb, code, says) => {
      await mkdir(path.join(folder, 'faults'), { recursive: true })
      await appendFile(path.join(folder, 'faults', verb), `${code} ${says}\n`)
    },
    endJob: async (code) => {
      await writeFile(path.join(folder, 'exit'), String(code))
      const found = await pid()
      if (found !== undefined) process.kill(found)
      await writeFile(path.join(folder, 'pid'), '')
    },
    [Symbol.asyncDispose]: async () => {
      const found = await pid()
      if (found !== undefined) process.kill(found, 'SIGKILL')
      await remove()
    },
  }
}

/** A zombie has ended, whoever has not asked for it yet. */
async function isAlive(pid: number): Promise<boolean> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  return text !== '' && !/\) Z /.test(text)
}
