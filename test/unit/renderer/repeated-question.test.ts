import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { RepeatedQuestion } from '../../../src/renderer/repeated-question.ts'

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

test('a question whose sign changes four times a second is asked all the same, and only once in a while', async () => {
  const asked: number[] = []
  const began = performance.now()
  const question = new RepeatedQuestion({ isFirst: false }, () => {
    asked.push(Math.round(performance.now() - began))
    return Promise.resolve()
  })
  for (let count = 0; count < 16; count += 1) {
    question.ask()
    await vi.advanceTimersByTimeAsync(250)
  }
  expect(asked).toEqual([1_500, 3_000])
})

test('a question under way is left to its answer and asked once more after it, however often it was wished for', async () => {
  const answers: (() => void)[] = []
  const question = new RepeatedQuestion({ isFirst: true }, () => new Promise((resolve) => answers.push(resolve)))
  question.ask()
  await vi.advanceTimersByTimeAsync(0)
  const first = answers.length
  for (let count = 0; count < 20; count += 1) {
    question.ask()
    await vi.advanceTimersByTimeAsync(250)
  }
  const meanwhile = answers.length
  answers[0]?.()
  await vi.advanceTimersByTimeAsync(5_000)
  answers[1]?.()
  await vi.advanceTimersByTimeAsync(5_000)
  expect({ first, meanwhile, inTheEnd: answers.length }).toEqual({ first: 1, meanwhile: 1, inTheEnd: 2 })
})

test('a question that is over is not asked again, also not after the answer that is under way', async () => {
  const answers: (() => void)[] = []
  const question = new RepeatedQuestion({ isFirst: true }, () => new Promise((resolve) => answers.push(resolve)))
  question.ask()
  await vi.advanceTimersByTimeAsync(0)
  question.ask()
  question.end()
  answers[0]?.()
  await vi.advanceTimersByTimeAsync(5_000)
  expect(answers.length).toBe(1)
})
