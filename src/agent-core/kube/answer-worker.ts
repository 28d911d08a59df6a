import { parentPort } from 'node:worker_threads'
import { z } from 'zod'
import { largeAnswer } from './large-answer.ts'
import { shortened } from './resources.ts'

const list = z.looseObject({ items: z.array(z.unknown()) })
const event = z.looseObject({ type: z.string(), object: z.unknown() })

parentPort?.on('message', (message) => parentPort?.postMessage(JSON.stringify(shortAnswer(message))))

function shortAnswer(message: unknown): unknown {
  const { text, form, kind } = largeAnswer.parse(message)
  const answer: unknown = JSON.parse(text)
  if (form === 'object') return shortened(kind, answer)
  if (form === 'list') {
    const { items, ...rest } = list.parse(answer)
    return { ...rest, items: items.map((item) => shortened(kind, item)) }
  }
  const { type, object } = event.parse(answer)
  // What the server complains about is no object of the kind.
  return { type, object: type === 'ERROR' ? object : shortened(kind, object) }
}
