import type { ContextDoubt } from '../../../contract/commands.ts'
import { looksLikeProduction } from '../../../contract/cluster.ts'
import type { PinnedContext } from '../../kube/pinned-context.ts'
import type { Rooms } from './rooms.ts'

export interface MoveInQuestion {
  readonly context: PinnedContext
  /** To be served there. Absent = all of them. */
  readonly namespace: string | undefined
  /** What a person said yes to before. */
  readonly accept: readonly ContextDoubt[]
}

export interface DoubtInMove {
  readonly doubt: ContextDoubt
  readonly message: string
  /** Of the button that does it all the same. */
  readonly label: string
}

/**
 * What a person has to say yes to before the present cluster is left for another: what runs for it comes down first, so before that the
 * other has to answer and to have LLMKube, and one that is called production is asked about. Undefined where nothing is in doubt.
 */
export async function doubtInMove(
  { agent }: Pick<Rooms, 'agent'>,
  { context, namespace, accept }: MoveInQuestion,
): Promise<DoubtInMove | undefined> {
  const present = agent.servedContext()
  if (present?.isAt(context)) return undefined
  const { name, server } = context
  if (looksLikeProduction(name) && !accept.includes('production')) {
    return {
      doubt: 'production',
      message: `Context "${name}" (${server}) is called production: this machine would claim and serve what its InferenceServices ask for, and what runs here for the present cluster would stop.`,
      label: `Serve "${name}"`,
    }
  }
  if (!present || accept.includes('unverified')) return undefined
  const reason = await agent.doubtAbout(context, namespace)
  return reason === undefined
    ? undefined
    : {
        doubt: 'unverified',
        message: `The context stays "${present.name}", and nothing was stopped: nothing could be served for "${name}". ${reason}`,
        label: 'Switch anyway',
      }
}
