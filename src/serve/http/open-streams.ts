import type { ServerResponse } from 'node:http'
import { LinkError, type Listener, type Unsubscribe } from '../../contract/client.ts'
import { heartbeatMs, type FollowLine, type StreamLine } from '../../contract/http.ts'
import { strictHeaders } from './headers.ts'
import { HttpRefusal } from './http-refusal.ts'

/** A window has two. */
const maxStreams = 16

type NextLine = (FollowLine | StreamLine) & { type: 'next' }

interface StreamOptions<T> {
  readonly response: ServerResponse
  readonly begin: (listener: Listener<T>) => Unsubscribe
  readonly jsonOf?: (item: T) => string
  /** As long as it goes on. */
  readonly onHeartbeat: () => void
}

/** The answers that go on until their page leaves or the agent ends. */
export class OpenStreams {
  readonly #ends = new Set<(error: LinkError) => void>()

  /** Throws {@link HttpRefusal} where there are too many. */
  add<Item extends NextLine['item']>({
    response,
    begin,
    jsonOf = JSON.stringify,
    onHeartbeat,
  }: StreamOptions<Item>): void {
    if (this.#ends.size >= maxStreams) {
      throw new HttpRefusal({
        status: 503,
        code: 'refused',
        message: `${maxStreams} streams are open already: close another window of this agent.`,
        headers: { 'retry-after': '5' },
      })
    }
    response.writeHead(200, { ...strictHeaders, 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' })
    response.flushHeaders()
    const write = (line: object) => void response.write(`${JSON.stringify(line)}\n`)
    const heartbeat = setInterval(() => {
      onHeartbeat()
      if (!response.writableNeedDrain) write({ type: 'heartbeat' })
    }, heartbeatMs)
    let unsubscribe: Unsubscribe = () => undefined
    const stop = () => {
      clearInterval(heartbeat)
      unsubscribe()
      this.#ends.delete(end)
    }
    const end = ({ code, message }: LinkError) => {
      stop()
      write({ type: 'end', code, message })
      response.end()
    }
    this.#ends.add(end)
    response.once('close', stop)
    const next = (item: Item) => void response.write(`{"type":"next","item":${jsonOf(item)}}\n`)
    unsubscribe = begin({ next, end })
  }

  endAll(): void {
    for (const end of this.#ends) end(new LinkError('gone', 'The agent ended.'))
  }
}
