import fc from 'fast-check'
import { expect, test } from 'vitest'
import { maxLookedAt, ModelField } from '../../../src/gateway/model-field.ts'

function modelIn(body: string | Buffer, pieceBytes = Infinity): { model: string | undefined; isOver: boolean } {
  const field = new ModelField()
  const bytes = Buffer.from(body)
  for (let at = 0; at < bytes.length; at += pieceBytes) field.push(bytes.subarray(at, at + pieceBytes))
  return { model: field.model, isOver: field.isOver }
}

test.each([
  ['{"model":"a"}', 'a'],
  ['\n{ "stream" : true , "model"\t:\n"a/b" }', 'a/b'],
  ['{"messages":[{"role":"user","content":"\\"model\\":\\"no\\" {"},{"model":"no"}],"model":"yes"}', 'yes'],
  ['{"tools":{"model":"no"},"x":"model","model":"yes"}', 'yes'],
  [String.raw`{"\u006dodel":"q\u00fc\"\\"}`, 'qü"\\'],
  ['{"model":"first","model":"last"}', 'first'],
  ['{"model":null,"prompt":"model"}', undefined],
  ['{"model":["a"]}', undefined],
  ['{"model":7,"stop":"b"}', undefined],
  ['["model","a"]', undefined],
  ['"model":"a"', undefined],
  ['model=a', undefined],
  ['', undefined],
  ['{"a":1} {"model":"behind"}', undefined],
  [String.raw`{"model":"\x"}`, undefined],
  [`{"model":"${'a'.repeat(5_000)}"}`, undefined],
])('the model of %j is %j, in whatever pieces it comes', (body, model) => {
  expect([modelIn(body), modelIn(body, 1), modelIn(body, 7)].map((one) => one.model)).toEqual([model, model, model])
})

test('it finds what JSON.parse finds, in any object that names its model once', () => {
  const others = fc.dictionary(
    fc.string().filter((key) => key !== 'model' && key !== '__proto__'),
    fc.jsonValue(),
    { maxKeys: 5 },
  )
  fc.assert(
    fc.property(others, fc.string(), others, fc.integer({ min: 1, max: 9 }), (before, model, after, pieceBytes) => {
      const body = JSON.stringify({ ...before, model, ...after }, null, pieceBytes % 3)
      expect(modelIn(body, pieceBytes).model).toBe((JSON.parse(body) as { model: string }).model)
    }),
  )
})

test('what stands behind the first 256 kB of a body is not looked at', () => {
  const before = (bytes: number) => `{"prompt":"${'x'.repeat(bytes)}","model":"a"}`
  expect(modelIn(before(maxLookedAt - 100)).model).toBe('a')
  expect(modelIn(before(maxLookedAt), 10_000)).toEqual({ model: undefined, isOver: true })
})
