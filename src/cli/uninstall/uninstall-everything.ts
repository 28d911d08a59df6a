import { hostPlatform } from '../../agent-core/platform/host.ts'
import { acquireLock } from '../../agent-core/state/lock.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { startTimeOf } from '../../agent-core/state/start-time.ts'
import path from 'node:path'
import { LinkError } from '../../contract/client.ts'
import type { Removal, TraceKind, TraceList } from '../../contract/uninstall.ts'
import { InstallationError } from '../../installation/installation-host.ts'
import { allParts, type KnownPlaces } from '../../installation/uninstall/all-parts.ts'
import { placesOfServices, servicePart } from '../../installation/uninstall/service-part.ts'
import { UninstallError, type TracePart } from '../../installation/uninstall/trace-part.ts'
import { lookAt } from '../../installation/uninstall/own-files.ts'
import { listTraces, removeTraces } from '../../installation/uninstall/uninstall.ts'
import { exitCodes, type CliIo } from '../io.ts'
import { runInTerminal } from '../power/power-rule.ts'
import { workOf } from '../service/install.ts'
import { whatIsLeftToDo } from './own-command.ts'
import { endAgent, findAgent } from './running-agent.ts'
import { uninstallHost } from './uninstall-host.ts'
import { listText, removalText, servingText } from './uninstall-text.ts'

export interface EverythingOptions {
  readonly stateDir: string
  /** By the one who runs it. */
  readonly stated: KnownPlaces
  readonly yes: boolean
  readonly dryRun: boolean
  readonly json: boolean
  /** Chosen beside what is by itself, and not chosen although it would be. */
  readonly also: readonly TraceKind[]
  readonly keep: readonly TraceKind[]
}

/** Removes everything that Metalbar ever wrote, as far as the one who runs it says so. Answers the exit code. */
export async function uninstallEverything(io: CliIo, options: EverythingOptions): Promise<number> {
  try {
    return await uninstall(io, options)
  } catch (error) {
    if (![UninstallError, InstallationError, LinkError].some((known) => error instanceof known)) throw error
    io.stderr.write(`metal-agent: ${messageOf(error)}\n`)
    return exitCodes.failed
  }
}

async function uninstall(io: CliIo, options: EverythingOptions): Promise<number> {
  const { stateDir, stated, yes, dryRun, json, also, keep } = options
  const host = await uninstallHost(io, stateDir)
  const session = { io, stateDir }
  const agent = await findAgent(session)
  const serving = agent?.serving ?? []
  const parts = await allParts({
    host,
    stateDir,
    platform: hostPlatform(host.platform),
    temporaryDir: io.temporaryDir,
    known: [stated, ...(agent ? [agent] : []), ...(await placesOfServices(host))],
    others: [servicePart(host, workOf(io))],
    asRoot: (words) => runInTerminal('/usr/bin/sudo', words, io, ''),
  })
  const list: TraceList = { traces: await listTraces(parts), serving }
  const usual = list.traces.filter(({ isChosen }) => isChosen).map(({ kind }) => kind)
  const chosen = new Set([...usual, ...also].filter((kind) => !keep.includes(kind)))
  if (list.traces.length === 0) {
    io.stdout.write(json ? `${JSON.stringify({ ...list, chosen: [] })}\n` : 'There is nothing of Metalbar here.\n')
    return exitCodes.done
  }
  if (dryRun) {
    io.stdout.write(json ? `${JSON.stringify({ ...list, chosen: [...chosen] })}\n` : overview(list, chosen))
    return exitCodes.done
  }
  const wanted = yes ? chosen : await choice(io, list, chosen)
  if (wanted === undefined) return exitCodes.refused
  if (agent) {
    io.stderr.write('The agent lets requests finish, stops its servers and ends …\n')
    await endAgent(session)
  }
  const removals = await removeAlone(parts, { stateDir, chosen: wanted, io })
  io.stdout.write(json ? `${JSON.stringify({ removals })}\n` : removalText(removals))
  if (!json) for (const line of await whatIsLeftToDo(io)) io.stdout.write(`${line}\n`)
  return removals.every(({ isGone }) => isGone) ? exitCodes.done : exitCodes.failed
}

const overview = (list: TraceList, chosen: ReadonlySet<TraceKind>): string =>
  `${list.serving.length === 0 ? '' : `${servingText(list.serving)}\n`}${listText(list, chosen)}`

/** Undefined where the person does not want it after all, or nobody can be asked. */
async function choice(
  io: CliIo,
  list: TraceList,
  first: ReadonlySet<TraceKind>,
): Promise<ReadonlySet<TraceKind> | undefined> {
  const { ask } = io
  if (ask === undefined) {
    io.stdout.write(overview(list, first))
    const ends = list.serving.length === 0 ? '' : ', which ends these models in good order'
    io.stderr.write(`metal-agent: Nothing was removed: repeat it with --yes${ends}.\n`)
    return undefined
  }
  const chosen = new Set(first)
  for (;;) {
    io.stdout.write(overview(list, chosen))
    const answer = await ask('\nNumbers change a tick, "remove" removes what is ticked, Return ends: ')
    const words = (answer ?? '')
      .trim()
      .split(/[\s,]+/)
      .filter(Boolean)
    if (words.length === 0) {
      io.stderr.write('metal-agent: Nothing was removed.\n')
      return undefined
    }
    if (words.join(' ') === 'remove') return chosen
    for (const word of words) {
      const kind = list.traces[Number(word) - 1]?.kind
      if (kind === undefined) io.stderr.write(`metal-agent: ${JSON.stringify(word)} is no number of the list.\n`)
      else if (!chosen.delete(kind)) chosen.add(kind)
    }
  }
}

/** With the lock of the state folder, so that no agent starts meanwhile. Throws UninstallError. */
async function removeAlone(
  parts: readonly TracePart[],
  { stateDir, chosen, io }: { stateDir: string; chosen: ReadonlySet<TraceKind>; io: CliIo },
): Promise<Removal[]> {
  const onStep = (what: string) => void io.stderr.write(`${what} …\n`)
  // An agent of the service may wait for the state folder, and would get it now.
  const first = parts.filter(({ kind }) => kind === 'service')
  const rest = parts.filter(({ kind }) => kind !== 'service')
  const services = await removeTraces(first, { chosen, onStep })
  if ((await lookAt(stateDir)) === undefined) return [...services, ...(await removeTraces(rest, { chosen, onStep }))]
  const platform = hostPlatform()
  const locked = await acquireLock({
    file: path.join(stateDir, 'agent.lock'),
    processStartTime: (pid) => startTimeOf(platform, pid),
  })
  if (!locked.ok && locked.holder !== undefined) {
    const { pid } = locked.holder
    throw new UninstallError(
      `An agent that does not answer has the state folder (process ${pid}): end it first. ${services.length === 0 ? 'Nothing' : 'Nothing but the service'} was removed.`,
    )
  }
  try {
    return [...services, ...(await removeTraces(rest, { chosen, onStep }))]
  } finally {
    if (locked.ok) await locked.lock.release()
  }
}
