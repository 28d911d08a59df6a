import type { z } from 'zod'
import { LinkError } from '../contract/client.ts'

/** What a client is told of what went wrong; a defect of ours is for the log. */
export const failuresTo =
  (onError: (error: unknown) => void) =>
  (error: unknown): LinkError => {
    if (error instanceof LinkError) return error
    onError(error)
    return new LinkError('refused', 'The agent failed to answer; its log says why.', { cause: error })
  }

/** `what` has no article, such as "command". */
export function notUnderstood(what: string, { issues: [issue] }: z.ZodError): LinkError {
  const where = issue?.path.join('.') ?? ''
  const why = `${where}: ${issue?.message ?? ''}`.replace(/^: /, '')
  return new LinkError('misunderstood', `The agent did not understand this ${what}: ${why}.`)
}

export const requestTooLong = (bytes: number) =>
  new LinkError('refused', `A request must not be longer than ${bytes / 1_024} KiB.`)
