import path from 'node:path'
import { z } from 'zod'
import { hostPlatform } from '../../agent-core/platform/host.ts'
import { lockHolder, startTimeOf } from '../../agent-core/state/lock.ts'
import { lockFileIn } from '../../agent-core/state/state-folder.ts'
import { parseJson, readIfThere } from '../../agent-core/util/files.ts'
import { LinkError } from '../../contract/client.ts'
import {
  askSystem,
  hostOfThisUser,
  InstallationError,
  type InstallationHost,
  type InstallationUser,
} from '../../installation/installation-host.ts'
import type { Agents, ServiceWork } from '../../installation/service/service.ts'
import type { ServicePlan } from '../../installation/service/service-plan.ts'
import { connect, VerbError } from '../agent-session.ts'
import { exitCodes, type CliIo } from '../io.ts'

/** This machine and the user whose service it is; `userName` where root installs for somebody. Throws VerbError and InstallationError. */
export async function serviceHost(io: CliIo, userName?: string): Promise<InstallationHost> {
  const { platform, env, homeDir } = io
  if (platform !== 'darwin' && platform !== 'linux')
    throw new VerbError(`Metalbar runs on macOS and Linux, not on ${platform}.`)
  const host = hostOfThisUser({ platform, env, homeDir })
  const { isRoot, user } = host
  const sudoer = env['SUDO_USER']
  const named = userName ?? (isRoot && sudoer !== undefined && sudoer !== 'root' ? sudoer : undefined)
  if (named !== undefined && named !== user.name) {
    if (!isRoot) throw new VerbError(`Only root may install a service for ${named}: run this again with sudo in front.`)
    return { ...host, user: await otherUser(host, named) }
  }
  if (!path.isAbsolute(homeDir)) {
    throw new VerbError(
      'HOME names no folder, so it is not known where the service and its state belong: set HOME, and run this again.',
    )
  }
  return host
}

/** The same, where launchd runs a service. Throws VerbError and InstallationError. */
export function launchdHost(io: CliIo, userName?: string): Promise<InstallationHost> {
  if (io.platform === 'darwin') return serviceHost(io, userName)
  throw new VerbError(
    'A service needs launchd, which only macOS has: on Linux run metal-agent in the foreground, or under a service manager of your own.',
  )
}

/** The same for the user as whom a service runs: root's own shell does not say who that is. Throws VerbError and InstallationError. */
export const hostOf = (
  plan: Pick<ServicePlan, 'userName'> | undefined,
  host: InstallationHost,
  io: CliIo,
): Promise<InstallationHost> =>
  host.isRoot && plan?.userName !== undefined && plan.userName !== host.user.name
    ? serviceHost(io, plan.userName)
    : Promise.resolve(host)

/** A line of `id -P` of macOS, name:password:uid:gid:class:change:expire:full name:home:shell. Undefined where it is none. */
export function userOfLine(name: string, line: string): InstallationUser | undefined {
  const fields = line.trim().split(':')
  const [id, groupId, homeDir] = [fields[2] ?? '', fields[3] ?? '', fields[8] ?? '']
  const isUser =
    fields.length === 10 && [id, groupId].every((one) => /^\d{1,10}$/.test(one)) && path.isAbsolute(homeDir)
  return isUser ? { name, id: Number(id), groupId: Number(groupId), homeDir } : undefined
}

async function otherUser(
  host: Pick<InstallationHost, 'programFolders' | 'env'>,
  name: string,
): Promise<InstallationUser> {
  const { exitCode, stdout } = name.startsWith('-')
    ? { exitCode: 1, stdout: '' }
    : await askSystem(host, 'id', ['-P', name])
  const user = exitCode === 0 ? userOfLine(name, stdout) : undefined
  if (!user) throw new InstallationError(`There is no user ${JSON.stringify(name)} on this machine.`)
  return user
}

const lockContent = z.object({ pid: z.int().positive() })

/** The process that has the lock of a state folder. */
export async function agentPid(stateDir: string): Promise<number | undefined> {
  const text = await readIfThere(lockFileIn(stateDir))
  return lockContent.safeParse(parseJson(text ?? '')).data?.pid
}

/** Agents by the sockets of their state folders. */
export function agentsOf(io: CliIo): Agents {
  const platform = hostPlatform()
  const holderOf = (stateDir: string) =>
    lockHolder({ file: lockFileIn(stateDir), processStartTime: (pid) => startTimeOf(platform, pid) })
  return {
    look: (stateDir) =>
      undefinedWhereSilent(async () => {
        await using agent = await connect({ io, stateDir })
        const { version, startedAt, services } = await agent.snapshot()
        const serverPids = services.flatMap(({ pid }) => (pid === undefined ? [] : [pid]))
        const serving = services.filter(({ pid }) => pid !== undefined).map((one) => `${one.namespace}/${one.name}`)
        return { pid: (await holderOf(stateDir))?.pid, version, startedAt, serverPids, serving }
      }),
    leave: async (stateDir) =>
      (await undefinedWhereSilent(async () => {
        await using agent = await connect({ io, stateDir })
        const { outcome, message } = await agent.command({ name: 'shutdown', keepServing: true })
        return outcome === 'accepted' || outcome === 'done' ? 'leaves' : { refused: message }
      })) ?? 'silent',
  }
}

async function undefinedWhereSilent<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof LinkError) return undefined
    throw error
  }
}

export const workOf = (io: CliIo): ServiceWork => ({
  agents: agentsOf(io),
  tell: (sentence) => void io.stderr.write(`${sentence}\n`),
})

/** What was refused or failed is one sentence and an exit code. */
export async function saying(io: CliIo, work: () => Promise<number>): Promise<number> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof InstallationError)) throw error
    io.stderr.write(`metal-agent: ${error.message}\n`)
    return exitCodes.failed
  }
}
