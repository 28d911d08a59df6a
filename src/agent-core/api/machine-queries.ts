import { userInfo } from 'node:os'
import type { Rooms } from './command.ts'
import type { HeldMemory } from '../memory/holds.ts'
import { countedOnce } from '../memory/room.ts'
import type { PowerCommands } from '../power/powermetrics.ts'
import { fragmentFile, fragmentFor, hasRuleFile, leaveOf, ruleState } from '../power/sudoers.ts'
import { chooseHostAddress, type HostAddress, type HostCandidate } from '../publishing/host-address.ts'
import { ProgramError } from '../util/ask-program.ts'
import { splitKey } from '../util/object-key.ts'
import { sentence } from '../../contract/clean-text.ts'
import { LinkError } from '../../contract/client.ts'
import type { HolderView, SizingView } from '../../contract/memory.ts'
import type { PowerRuleView } from '../../contract/power.ts'
import type { Answer } from '../../contract/queries.ts'

/** What the agent would size one more model with, as of now. Throws LinkError where it does not know itself. */
export async function sizing({ platform, memory, hasMetal, llamaServer }: Rooms): Promise<SizingView> {
  const [applications, binary] = await Promise.all([memory.applications(), llamaServer()])
  const { view, budget, problem, book } = memory
  if (!view?.figures || !budget)
    throw new LinkError('refused', problem ?? view?.problem ?? 'The agent has not measured memory yet.')
  const { held, waiting } = book.state()
  return {
    platform: platform.name,
    totalBytes: view.figures.totalBytes,
    availableBytes: view.figures.availableBytes,
    budgetBytes: budget.bytes,
    ...(budget.gpuLimitBytes !== undefined && { gpuLimitBytes: budget.gpuLimitBytes }),
    pressure: view.level,
    holders: holdersOf(held),
    waiting: [...waiting],
    applications: applications.map(({ name, bytes }) => ({ name, bytes })),
    metal: hasMetal(),
    ...(binary.kind === 'found' && { llamaServer: binary.path }),
  }
}

/** What each service holds, the largest first: a stopped service gives back what all of its servers hold. */
function holdersOf(held: readonly HeldMemory[]): HolderView[] {
  const byKey = Map.groupBy(held, ({ key }) => key)
  const holders = [...byKey].map(([key, servers]) => {
    const own = countedOnce(servers)
    const sum = (of: (server: HeldMemory) => number) => own.reduce((total, server) => total + of(server), 0)
    const shared = own.length === 1 ? own[0]?.shared : undefined
    return {
      ...splitKey(key),
      priority: servers[0]?.priority ?? 'normal',
      committedBytes: sum(({ committedBytes }) => committedBytes),
      residentBytes: sum(({ residentBytes }) => residentBytes),
      promisedBytes: sum(({ promisedBytes }) => promisedBytes),
      ...(shared && { shared: { ...shared, keys: [...shared.keys] } }),
    }
  })
  return holders.sort((a, b) => b.committedBytes - a.committedBytes)
}

export interface PowerRuleSources {
  readonly platform: 'darwin' | 'linux'
  /** Instead of those of macOS. */
  readonly commands?: PowerCommands | undefined
}

const maxRuleMessageBytes = 1_000

/** The rule for the user whose agent this is, and how sudo stands to it. */
export async function powerRule({ platform, commands }: PowerRuleSources): Promise<PowerRuleView> {
  const { username: name, uid: id } = userInfo()
  const user = { name, id }
  const facts = { file: fragmentFile(user), rule: fragmentFor(user) }
  if (platform !== 'darwin') return { ...facts, state: 'notHere' }
  try {
    const [leave = { intervalsMs: [] }, hasFile] = await Promise.all([leaveOf(user, commands), hasRuleFile(user)])
    const { tooWide } = leave
    return {
      ...facts,
      state: ruleState(leave, hasFile),
      ...(tooWide !== undefined && { message: sentence(tooWide, maxRuleMessageBytes) }),
    }
  } catch (error) {
    if (!(error instanceof ProgramError)) throw error
    return { ...facts, state: 'unknown', message: sentence(error.message, maxRuleMessageBytes) }
  }
}

/** Every address of this machine, and why one should not be published. */
export function hostAddresses(
  interfaces: readonly HostCandidate[],
  { address, automatic }: { readonly address: HostAddress; readonly automatic: boolean },
): Answer<'hostAddresses'> {
  const inUse = address.kind === 'chosen' ? address.address : undefined
  const { rejected } = chooseHostAddress(interfaces, inUse)
  const reasons = new Map(rejected.map((one) => [one.address, one.reason]))
  return {
    automatic,
    message:
      address.kind === 'chosen'
        ? [`${address.address}: ${address.why}.`, address.warning].filter(Boolean).join(' ')
        : address.message,
    addresses: interfaces.map((one) => {
      const unfit = reasons.get(one.address)
      return {
        address: one.address,
        interface: one.name,
        inUse: one.address === inUse,
        ...(unfit !== undefined && { unfit }),
      }
    }),
  }
}
