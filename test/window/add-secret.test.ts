import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { fitting } from '../support/window/scene-additions.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

test('the Secret of a private source is asked with when it is looked up and not while it is written, and named by what is created', async () => {
  await using window = await show(scenes['add-secret'])
  const { page, agent } = window
  await page.getByText('Secret default/hf-team, which spec.sourceSecretRef names, does not exist').waitFor()
  agent.replies.fit = () => fitting
  const asked = agent.queriesOf('fit').length
  const secret = page.getByRole('textbox', { name: 'Secret with the token' })
  const look = page.getByRole('button', { name: 'Look it up' })
  await secret.fill('HF team')
  await page.getByText('It must be the name of a Secret: small letters, digits, dots and dashes.').waitFor()
  const refused = await look.isDisabled()
  await secret.fill('')
  await secret.pressSequentially('hf-other')
  await eventually(() => look.isEnabled())
  const whileWritten = agent.queriesOf('fit').length - asked
  await secret.press('Enter')
  await page.getByRole('slider', { name: 'Context' }).press('ArrowLeft')
  await page.getByText('with a context of 4,096 tokens').waitFor()
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('private')
  await page.getByText('As YAML').click()
  const yaml = await page.getByText('kind: Model').textContent()
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  await eventually(() => agent.asked.length === 1)
  const { source } = fitting
  const application = { namespace: 'default', name: 'private', source, sourceSecret: 'hf-other', contextSize: 4_096 }
  expect({ refused, whileWritten, yaml, asked: agent.asked[0]?.command }).toEqual({
    refused: true,
    whileWritten: 0,
    yaml: expect.stringMatching(/sourceSecretRef:\n\s+name: hf-other/) as string,
    asked: { name: 'applyModel', application },
  })
  const question = { name: 'fit', namespace: 'default', source: 'hf://team/private' }
  expect(agent.queriesOf('fit').slice(0, asked + 1)).toEqual([
    question,
    ...Array.from({ length: asked - 1 }, () => ({ ...question, sourceSecret: 'hf-team' })),
    { ...question, sourceSecret: 'hf-other' },
  ])
})

test('what is in the store or in the list of the well-known takes no Secret, and none of another source is sent for it', async () => {
  await using window = await show(scenes['add-secret'])
  const { page, agent } = window
  agent.replies.fit = () => fitting
  const secret = page.getByRole('textbox', { name: 'Secret with the token' })
  await secret.waitFor()
  const field = page.getByLabel('Model', { exact: true })
  for (const [written, option] of [
    ['phi-4', 'Phi-4 Mini Instruct'],
    ['smollm', 'smollm-360m'],
  ] as const) {
    await field.fill(written)
    await page.getByRole('option', { name: option }).click()
    await page.getByRole('slider', { name: 'Context' }).waitFor()
    expect([await secret.count(), agent.queriesOf('fit').at(-1)?.sourceSecret]).toEqual([0, undefined])
  }
})
