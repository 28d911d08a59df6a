import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { withRuntimes } from '../support/window/scene-agents.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()
const begun = { outcome: 'accepted', message: 'It has started.' } as const

test('a runtime is installed only after its commands were shown and agreed to, can be cancelled, and says what came of it', async () => {
  await using window = await show(scenes['runtime-missing'])
  const { page, agent } = window
  const button = page.getByRole('button', { name: 'Install mlx-lm' })
  await button.click()
  const question = page.getByRole('group', { name: 'Install mlx-lm' })
  await question.getByText("'mlx-lm>=0.32.2'").waitFor()
  await page.keyboard.press('Escape')
  await question.waitFor({ state: 'detached' })
  expect([agent.asked, await button.evaluate((one) => one === document.activeElement)]).toEqual([[], true])

  await button.click()
  agent.answers.push(begun)
  await question.getByRole('button', { name: 'Install', exact: true }).click()
  await eventually(() => agent.asked.length === 1)
  const { runtimeWork } = withRuntimes({})().shown
  expect(agent.asked[0]?.command).toEqual({ name: 'changeRuntime', plan: runtimeWork?.id })

  if (runtimeWork === undefined) throw new TypeError('no work')
  agent.show({ ...agent.shown, revision: 2, runtimeWork })
  const running = page.getByRole('group', { name: 'Installing mlx-lm…' })
  await running.getByText('Resolved 24 packages in 1.20s').waitFor()
  expect(await page.getByRole('button', { name: 'Install ollama' }).isDisabled()).toBe(true)
  agent.answers.push(begun)
  await running.getByRole('button', { name: 'Cancel the work on mlx-lm' }).click()
  await eventually(() => agent.asked.length === 2)
  expect(agent.asked[1]?.command).toEqual({ name: 'cancelRuntimeChange' })

  agent.show({
    ...agent.shown,
    revision: 3,
    runtimeWork: { ...runtimeWork, state: 'cancelled', message: 'It was cancelled.' },
  })
  await page.getByText('It was cancelled.').waitFor()
  await page.getByRole('button', { name: 'Close', exact: true }).click()
  expect(await page.getByText('It was cancelled.').count()).toBe(0)
  await button.waitFor()
})

test('a service that waits for Ollama has the agent start it', async () => {
  await using window = await show(scenes['ollama-absent'])
  const { page, agent } = window
  await page.getByRole('button', { name: 'Start Ollama' }).click()
  await eventually(() => agent.asked.length === 1)
  expect(agent.asked[0]?.command).toEqual({ name: 'updateSettings', settings: { ollamaStart: true } })
  agent.answer({ outcome: 'done', message: 'ollama-start is on.' })
  await page.getByText(/Keep Ollama running/).waitFor()
})
