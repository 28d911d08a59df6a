import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { onPath } from '../../tasks/setup/tools.ts'
import { eventually } from './eventually.ts'
import { removeFolder } from './temporary-folder.ts'

const program = '/lib/systemd/systemd'

/** Why no systemd of a user can be run here; undefined where one can. */
export function missingPrivateSystemd(): string | undefined {
  const isPossible = process.platform === 'linux' && process.getuid?.() === 0
  if (!isPossible || onPath('systemctl') === undefined || spawnSync(program, ['--version']).status !== 0) {
    return 'a systemd of our own needs Linux, root and systemd'
  }
  const { status } = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'none', '/mnt'])
  return status === 0 ? undefined : 'a systemd of our own needs leave to mount (unshare --mount)'
}

export interface PrivateSystemd extends AsyncDisposable {
  readonly homeDir: string
  /** What a login of this user would have. */
  readonly env: Readonly<Record<string, string>>
  /** Properties of the unit, as systemctl prints them. */
  show(unit: string, property: string): string
}

/**
 * A real systemd as a user's manager, which knows nothing of the one of this machine: it sees another /run/systemd, has a home of its own and
 * a control group of its own, of which nothing is left at the end.
 */
export async function startPrivateSystemd(): Promise<PrivateSystemd> {
  const folder = await mkdtemp(path.join(tmpdir(), 'mb-systemd-'))
  const [homeDir, runtimeDir] = [path.join(folder, 'home'), path.join(folder, 'run')]
  for (const one of [homeDir, runtimeDir]) await mkdir(one, { mode: 0o700 })
  const name = `mb-${path.basename(folder)}`
  const groups = ['/sys/fs/cgroup', '/sys/fs/cgroup/systemd', '/sys/fs/cgroup/unified'].map((one) =>
    path.join(one, name),
  )
  const script = [
    // In a folder that is no control group the kernel makes no such file, whatever lies beside it.
    ...groups.map(
      (group) =>
        `mkdir '${group}' 2>/dev/null && { [ -e '${group}/cgroup.procs' ] || ! rmdir '${group}'; } && echo $$ > '${group}/cgroup.procs' 2>/dev/null`,
    ),
    'mkdir -p /run/systemd && mount -t tmpfs none /run/systemd && mkdir /run/systemd/system',
    `exec ${program} --user --log-target=null`,
  ].join('\n')

  const env = { PATH: process.env['PATH'] ?? '', HOME: homeDir, XDG_RUNTIME_DIR: runtimeDir, LANG: 'C.UTF-8' }
  const manager = spawn('unshare', ['--mount', '/bin/sh', '-c', script], { env, stdio: 'ignore' })
  const ended = new Promise((resolve) => manager.once('close', resolve))
  const systemctl = (...args: string[]) =>
    execFileSync('systemctl', ['--user', ...args], { env, encoding: 'utf8', stdio: 'pipe' })
  const dispose = async (): Promise<void> => {
    manager.kill('SIGKILL')
    await ended
    await eventually(async () => (await Promise.all(groups.map(killed))).every((isEmpty) => isEmpty), {
      what: 'the end of all',
    })
    await removeFolder(folder)
  }
  try {
    await eventually(() => systemctl('show', '--property=Version') !== '', { what: 'systemd' })
  } catch (error) {
    await dispose()
    throw error
  }
  return {
    ...{ homeDir, env },
    show: (unit, property) => systemctl('show', unit, `--property=${property}`, '--value').trim(),
    [Symbol.asyncDispose]: dispose,
  }
}

/** Ends what is in a control group and those below it, and removes them; false while something is left. */
async function killed(group: string): Promise<boolean> {
  const folders = spawnSync('find', [group, '-depth', '-type', 'd'], { encoding: 'utf8' })
    .stdout.split('\n')
    .filter(Boolean)
  for (const one of folders) {
    const pids = await readFile(path.join(one, 'cgroup.procs'), 'utf8').catch(() => '')
    for (const pid of pids.split('\n').filter(Boolean)) spawnSync('kill', ['-KILL', pid])
    spawnSync('rmdir', [one])
  }
  return spawnSync('test', ['-e', group]).status !== 0
}
