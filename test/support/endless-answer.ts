import { eventually } from './eventually.ts'

/** A completion that is under way when this resolves; its client goes when this scope ends, which is long before the answer does. */
export async function endlessAnswer(port: number) {
  const ended = new AbortController()
  const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], max_tokens: 1_000_000, stream: true }),
    signal: ended.signal,
  })
  const story = { length: 0, isCut: false }
  const reading = (async () => {
    try {
      for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) story.length += piece.length
      story.isCut = true
    } catch {
      story.isCut = !ended.signal.aborted
    }
  })()
  return {
    /** More has come than had when this was called. Fails once it is cut. */
    goesOn: async () => {
      const { length } = story
      await eventually(
        () => {
          if (story.isCut) throw new Error(`The answer was cut after ${story.length} characters.`)
          return story.length > length
        },
        { what: 'more of the answer' },
      )
    },
    [Symbol.asyncDispose]: async () => {
      ended.abort()
      await reading
    },
  }
}
