import { shellWord } from '../../contract/shell.ts'
import type { PinnedContext } from '../kube/pinned-context.ts'

interface Place {
  readonly name: string
  readonly file: string | undefined
}

/** Undefined where the cluster stays, or nothing was left that could be chosen again. */
export function wayBackFrom(left: PinnedContext, next: PinnedContext): Place | undefined {
  const { name, file } = left
  return left.isAt(next) || (name === next.name && file === next.file) ? undefined : { name, file }
}

/** What a person reads while the present context has not been reached; `kubeconfig` is the one in use. */
export function wayBackSentence(back: Place, { now, kubeconfig }: { now: string; kubeconfig: string | undefined }) {
  const use = `metal-agent context use ${shellWord(back.name)}`
  if (back.file === kubeconfig) {
    return `Context "${now}" was not reached yet; "${back.name}" was served before: ${use} goes back.`
  }
  const of = back.file ?? 'the usual kubeconfig'
  const set = `metal-agent settings set kubeconfig ${shellWord(back.file ?? 'default')}`
  return `Context "${now}" was not reached yet; "${back.name}" of ${of} was served before: ${set}, and then ${use}, go back.`
}
