import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { execa } from 'execa'
import { onPath } from '../../../tasks/setup/tools.ts'
import { temporaryFolder } from '../temporary-folder.ts'

/** The folder of an unpacked sudo package, for a machine that has none installed. */
const unpacked = process.env['METALBAR_SUDO_ROOT']

/** Why no sudo with rules of its own can be had here; undefined where one can. */
export function missingSudo(): string | undefined {
  const tools = ['unshare', 'nsenter', 'setpriv', ...(unpacked === undefined ? ['sudo', 'visudo'] : [])]
  const missing = tools.filter((tool) => onPath(tool) === undefined && !existsSync(`/usr/sbin/${tool}`))
  if (process.platform !== 'linux' || process.getuid?.() !== 0) {
    return 'a sudo with rules of its own needs Linux and root'
  }
  if (missing.length > 0) return `a sudo with rules of its own needs ${missing.join(', ')} (or METALBAR_SUDO_ROOT)`
  try {
    execFileSync('unshare', ['-m', 'true'], { stdio: 'pipe' })
    return undefined
  } catch (error) {
    return `mount namespaces are not allowed here: ${error instanceof Error ? error.message : String(error)}`
  }
}

/** /etc and /usr as they are, with changes that nobody else sees; the only rules are those of root and of /etc/sudoers.d. */
const setUp = `set -e
mount --make-rprivate /
mount -t tmpfs none "$1"
for name in etc usr; do
  mkdir "$1/$name" "$1/$name.work"
  mount -t overlay overlay -o "lowerdir=/$name,upperdir=$1/$name,workdir=$1/$name.work" "/$name"
done
if [ -n "$2" ]; then cp -a "$2/usr/." /usr/; cp -a "$2/etc/." /etc/; fi
mkdir -p /etc/sudoers.d
rm -f /etc/sudoers.d/*
printf 'Defaults !mail_badpass\\nroot ALL=(ALL:ALL) ALL\\n@includedir /etc/sudoers.d\\n' > /etc/sudoers
chmod 0440 /etc/sudoers
printf '#!/bin/sh\\necho "$(id -u): $*"\\n' > /usr/bin/powermetrics
chmod 0755 /usr/bin/powermetrics
echo ready
exec cat
`

interface Ran {
  readonly code: number | undefined
  readonly stdout: string
  readonly stderr: string
}

const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--']
const macCommand = path.resolve(import.meta.dirname, 'mac-command.ts')

/** The real sudo, in a mount namespace of its own with a stand-in for powermetrics. Ask {@link missingSudo} first. */
export class SudoNamespace implements AsyncDisposable {
  readonly #pid: number
  readonly #parts: AsyncDisposableStack

  private constructor(pid: number, parts: AsyncDisposableStack) {
    this.#pid = pid
    this.#parts = parts
  }

  static async open(): Promise<SudoNamespace> {
    await using parts = new AsyncDisposableStack()
    const folder = parts.use(await temporaryFolder())
    const holder = spawn('unshare', ['-m', 'sh', '-c', setUp, 'sh', folder.dir, unpacked ?? ''], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const ended = once(holder, 'exit')
    parts.defer(async () => {
      holder.stdin.end()
      await ended
    })
    await Promise.race([once(holder.stdout, 'data'), ended])
    if (holder.pid === undefined || holder.exitCode !== null)
      throw new Error('The mount namespace could not be set up.')
    return new SudoNamespace(holder.pid, parts.move())
  }

  asRoot(...command: readonly string[]): Promise<Ran> {
    return this.#run(command)
  }

  asNobody(...command: readonly string[]): Promise<Ran> {
    return this.#run([...nobody, ...command])
  }

  /** `metal-agent` as on a Mac. */
  metalAgent(who: 'root' | 'nobody', ...args: readonly string[]): Promise<Ran> {
    return this.metalAgentWith([], who, ...args)
  }

  /** The same with changes to the environment, each as `NAME=value`. */
  metalAgentWith(changes: readonly string[], who: 'root' | 'nobody', ...args: readonly string[]): Promise<Ran> {
    const command = ['env', ...changes, process.execPath, macCommand, ...args]
    return who === 'root' ? this.asRoot(...command) : this.asNobody(...command)
  }

  async #run(command: readonly string[]): Promise<Ran> {
    const args = ['-m', '-t', String(this.#pid), '--', ...command]
    const { exitCode, stdout, stderr } = await execa('nsenter', args, { reject: false, stdin: 'ignore' })
    return { code: exitCode, stdout, stderr }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#parts.disposeAsync()
  }
}
