import { patienceMs } from './running-agent.ts'

/** Asks the server at this port for a streamed completion: what came of it so far, and how it ended. */
export function streamedAnswer(port: number, tokens: number) {
  const answer = { text: '', end: Promise.resolve<'whole' | 'cut'>('cut') }
  const read = async (): Promise<'whole' | 'cut'> => {
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        messages: [{ role: 'user', content: 'hello' }],
        max_tokens: tokens,
        ignore_eos: true,
        stream: true,
      }),
      signal: AbortSignal.timeout(patienceMs),
    })
    const chunks = response.body?.pipeThrough(new TextDecoderStream()) ?? []
    for await (const chunk of chunks) answer.text += chunk
    return answer.text.trimEnd().endsWith('data: [DONE]') ? 'whole' : 'cut'
  }
  answer.end = read().catch(() => 'cut')
  return answer
}
