import { parentPort } from 'node:worker_threads'
import { patternQuestion, type PatternAnswer } from './tensor-patterns.ts'

parentPort?.on('message', (message) => {
  const { patterns, names } = patternQuestion.parse(message)
  const answer: PatternAnswer = patterns.map((pattern) => matchesOf(pattern, names))
  parentPort?.postMessage(answer)
})

/** Null where it is no pattern. */
function matchesOf(pattern: string, names: readonly string[]): string[] | null {
  try {
    const expression = new RegExp(pattern)
    return names.filter((name) => expression.test(name))
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
