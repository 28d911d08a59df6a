import { expect, test } from 'vitest'
import { LinkError } from '../../src/contract/client.ts'
import { eventually } from '../support/eventually.ts'
import { withServices } from '../support/window/scene-agents.ts'
import { ready } from '../support/window/scene-services.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()
const end = { tokens: 9, tokensPerSecond: 12.34, isCut: false }

test('a question is answered word by word, with the rate at its end, and the next one begins anew', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page, agent } = window
  const box = page.getByRole('region', { name: 'Ask' })
  const button = box.getByRole('button', { name: 'Ask' })
  expect(await button.isDisabled()).toBe(true)
  await box.getByLabel('Question').fill('  What is a GPU good for?  ')
  await page.keyboard.press('Enter')
  await box.getByText('Waiting for the first word').waitFor()
  await eventually(() => agent.questions.length === 1)
  expect(agent.questions).toEqual(['What is a GPU good for?'])
  agent.say({ text: 'A GPU\n' })
  agent.say({ text: 'computes.' })
  await box.getByLabel('Answer').getByText('A GPU\ncomputes.').waitFor()
  agent.say({ text: '', end })
  await box.getByText('9 tokens at 12.3 tok/s', { exact: true }).waitFor()
  expect(agent.isAnswering).toBe(false)
  await button.click()
  agent.say({ text: 'Again', end: { ...end, isCut: true } })
  await box.getByText('9 tokens at 12.3 tok/s: cut there, the model had more to say').waitFor()
  expect(await box.getByLabel('Answer').textContent()).toBe('Again')
})

test('an answer is stopped by the person or by what went wrong, and what was said stays', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page, agent } = window
  const box = page.getByRole('region', { name: 'Ask' })
  await box.getByLabel('Question').fill('Count')
  await box.getByRole('button', { name: 'Ask' }).click()
  agent.say({ text: 'One' })
  await box.getByText('One').waitFor()
  await box.getByRole('button', { name: 'Stop' }).click()
  await box.getByText('Stopped.').waitFor()
  expect([agent.isAnswering, await box.getByLabel('Answer').textContent()]).toEqual([false, 'One'])
  await box.getByRole('button', { name: 'Ask' }).click()
  agent.failAnswer(new LinkError('refused', 'The model has no chat template.'))
  await box.getByText('The model has no chat template.').waitFor()
  expect(await box.getByRole('button', { name: 'Ask' }).isEnabled()).toBe(true)
})

test('a model that does not serve is not asked', async () => {
  await using window = await show({
    ...scenes['detail-tall'],
    agent: withServices([{ ...ready, state: 'stopped' }]),
  })
  expect(await window.page.getByRole('region', { name: 'Ask' }).count()).toBe(0)
})

test('what is pasted into a program names the service as this machine reaches it', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page } = window
  await page.getByRole('radio', { name: 'Claude Code' }).click()
  expect(await page.getByLabel('Claude Code', { exact: true }).last().textContent()).toBe(
    'ANTHROPIC_BASE_URL=http://127.0.0.1:51234 ANTHROPIC_AUTH_TOKEN=none claude --model phi-4-mini',
  )
  await page.getByRole('button', { name: 'Copy for Claude Code' }).waitFor()
})
