import { LinkError, type Listener, type Unsubscribe } from '../../../contract/client.ts'
import type { Answer, Query } from '../../../contract/queries.ts'
import type { StreamItem, StreamRequest } from '../../../contract/log.ts'
import type { ReadableOutput } from '../../servers/output.ts'
import { follow, tail } from '../../servers/output-reader.ts'
import { messageOf } from '../../util/message-of.ts'

/** The newest lines of a run, or those before a place. Throws LinkError where the files cannot be read. */
export async function logPage(
  log: ReadableOutput,
  { run, lines, before }: Extract<Query, { name: 'log' }>,
): Promise<Answer<'log'>> {
  try {
    return await tail(log, { run, lines, before })
  } catch (error) {
    throw unreadable(log, error)
  }
}

/** The lines written from a cursor on, until the listener leaves. */
export function followLog(log: ReadableOutput, { from }: StreamRequest, listener: Listener<StreamItem>): Unsubscribe {
  const left = new AbortController()
  const { signal } = left
  const read = async (): Promise<void> => {
    for await (const chunk of follow(log, { from, signal })) {
      if (signal.aborted) return
      listener.next(chunk)
    }
  }
  read().catch((error: unknown) => {
    if (!signal.aborted) listener.end(unreadable(log, error))
  })
  return () => left.abort()
}

function unreadable({ file }: ReadableOutput, error: unknown): LinkError {
  const why = messageOf(error)
  return new LinkError('refused', `The output in ${file} cannot be read: ${why}.`, { cause: error })
}
