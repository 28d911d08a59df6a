import { useState } from 'react'
import { parseByteCount } from '../../contract/format.ts'
import { byteUnits, joinByteText, splitByteText, type ByteUnit } from '../byte-text.ts'
import { TextInput } from '../components/text-input.tsx'
import { UnitChoice } from '../components/unit-choice.tsx'
import { settingWords } from '../words/settings/settings.ts'

interface ByteFieldProps {
  readonly title: string
  /** A number with its unit as Kubernetes writes it, such as `24Gi`; what a person writes may be none. */
  readonly text: string
  readonly help: string
  readonly problem: string | undefined
  /** Of a number that has none, such as 0. */
  readonly usualUnit: ByteUnit
  readonly onChange: (text: string) => void
}

/** A number of bytes, in a unit that is chosen beside it; below it is what that comes to. */
export function ByteField({ title, text, help, problem, usualUnit, onChange }: ByteFieldProps) {
  const { amount, unit: written } = splitByteText(text)
  const [kept, setKept] = useState<ByteUnit>()
  const unit = written ?? kept ?? usualUnit
  const bytes = parseByteCount(text) ?? 0
  const choose = (next: ByteUnit) => {
    setKept(next)
    if (amount !== '') onChange(joinByteText(amount, next))
  }
  return (
    <TextInput
      label={title}
      value={amount}
      onChange={(next) => onChange(joinByteText(next, unit))}
      help={bytes > 0 ? `${settingWords.isBytes(bytes)} ${help}` : help}
      problem={problem}
      placeholder={settingWords.placeholder}
      beside={
        <UnitChoice
          label={settingWords.unitOf(title)}
          units={byteUnits}
          words={settingWords.units}
          value={unit}
          onChange={choose}
        />
      }
    />
  )
}
