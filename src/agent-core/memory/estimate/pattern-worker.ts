import { parentPort } from 'node:worker_threads'
import { patternQuestion, type PatternAnswer } from './server-arguments.ts'

parentPort?.on('message', (message) => {
  const { patterns, names } = patternQuestion.parse(message)
  const expressions = patterns.map(expressionOf)
  const answer: PatternAnswer = {
    readable: expressions.map((expression) => expression !== undefined),
    first: names.map((name) => expressions.findIndex((expression) => expression?.test(name) === true)),
  }
  parentPort?.postMessage(answer)
})

/** Undefined where it is no pattern. */
function expressionOf(pattern: string): RegExp | undefined {
  try {
    return new RegExp(pattern)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
