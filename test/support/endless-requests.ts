import { eventually } from './eventually.ts'

/**
 * One request after the other, as a pod would send them; the port is asked for each. The longer the answer, the more of the time a request
 * is under way, and the less both ends have to do.
 */
export function askAgainAndAgain(
  where: number | (() => number | undefined),
  { tokens = 5 }: { readonly tokens?: number } = {},
) {
  const ended = new AbortController()
  const story = { answered: 0, failed: [] as unknown[] }
  const asking = (async () => {
    while (!ended.signal.aborted) {
      try {
        const port = typeof where === 'number' ? where : where()
        if (port === undefined) throw new Error('There is no address to ask.')
        const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], max_tokens: tokens }),
        })
        await response.json()
        if (response.ok) story.answered += 1
        else story.failed.push(response.status)
      } catch (error) {
        story.failed.push(error)
      }
    }
  })()
  return {
    get answered() {
      return story.answered
    },
    get failed() {
      return story.failed
    },
    more: () => {
      const enough = story.answered + 20
      return eventually(() => story.answered >= enough)
    },
    [Symbol.asyncDispose]: async () => {
      ended.abort()
      await asking
    },
  }
}
