import { type ReactNode, useState } from 'react'
import type { ChosenFile } from '../../contract/app-bridge.ts'
import { parseByteCount } from '../../contract/format.ts'
import { editableRow, type SettingName, type SettingView, spellingOf } from '../../contract/settings.ts'
import { Button, Command } from '../components/buttons.tsx'
import { ChoiceRow, SwitchRow, TextInput, UnitChoice } from '../components/fields.tsx'
import { Sentence } from '../components/text.tsx'
import {
  type ByteUnit,
  byteUnits,
  isConflict,
  joinByteText,
  splitByteText,
  textOf,
  type Written,
} from '../settings-draft.ts'
import { useApp, useTrust } from '../store.ts'
import { settingWords } from '../words/settings.ts'
import styles from './setting-field.module.css'

interface SettingFieldProps {
  readonly view: SettingView
  readonly written: Written | undefined
  readonly problem: string | undefined
  /** What was written is on its way to the agent. */
  readonly isPending: boolean
  /** Drawn above the field, for a value that is seen better than written. */
  readonly scale?: (text: string, onChange: (text: string) => void) => ReactNode
  /** Drawn below the field: what the change would do. */
  readonly preview?: ReactNode
  /** Undefined = the draft is dropped, and the current value stays. */
  readonly onChange: (text: string | null | undefined) => void
}

export function SettingField({ view, written, problem, isPending, scale, preview, onChange }: SettingFieldProps) {
  const trust = useTrust()
  const { trust: needed } = editableRow(view.name)
  const spelled = spellingOf(view.name)
  const title = settingWords.titleOf(view.name)
  if (view.from === 'flag') return <Fixed view={view} why={settingWords.byFlag} />
  if (needed === 'shell' && trust === 'page') {
    return (
      <Fixed view={view} why={settingWords.needsShell}>
        <Command text={settingWords.command(spelled)} copyLabel={settingWords.copyCommand(spelled)} />
      </Fixed>
    )
  }
  return (
    <div className={styles['field']} data-changed={written !== undefined}>
      {scale?.(written === undefined ? textOf(view) : (written.text ?? ''), onChange)}
      {scale !== undefined && preview}
      <Value view={view} written={written} problem={problem} onChange={onChange} />
      {scale === undefined && preview}
      {written !== undefined && !isPending && isConflict(written, view) && (
        <Conflict view={view} onTake={() => onChange(undefined)} />
      )}
      {view.from === 'person' && written?.text !== null && (
        <div>
          <Button look="plain" label={settingWords.defaultOf(title)} onPress={() => onChange(null)}>
            {settingWords.useDefault}
          </Button>
        </div>
      )}
      {view.from === 'startFile' && <p className={styles['note']}>{settingWords.byStartFile}</p>}
      {written?.text === null && <p className={styles['note']}>{settingWords.willBeDefault}</p>}
    </div>
  )
}

interface ConflictProps {
  readonly view: SettingView
  readonly onTake: () => void
}

/** Somebody else set it while a person wrote here. */
function Conflict({ view, onTake }: ConflictProps) {
  return (
    <div className={styles['conflict']} role="status">
      <p>{settingWords.conflict(view)}</p>
      <Button look="plain" label={settingWords.takeOf(settingWords.titleOf(view.name))} onPress={onTake}>
        {settingWords.take}
      </Button>
    </div>
  )
}

function Value({ view, written, problem, onChange }: Omit<SettingFieldProps, 'isPending'>) {
  const { name } = view
  const help = settingWords.help(name)
  const text = written?.text ?? (written === undefined ? textOf(view) : '')
  const title = settingWords.titleOf(name)
  const field = { title, text, help, problem, onChange }
  switch (editableRow(name).kind) {
    case 'switch':
      return <SwitchRow {...field} isOn={text === 'on'} onChange={(on) => onChange(on ? 'on' : 'off')} />
    case 'choice':
      return <ChoiceRow {...field} words={settingWords.choicesOf(name) ?? {}} value={text} />
    case 'bytes':
      return <ByteField {...field} usualUnit={name === 'downloadBytesPerSecond' ? 'M' : 'G'} />
    case 'path':
    case 'executable':
      return <PathField {...field} name={name} />
    default:
      return (
        <TextInput
          label={title}
          value={text}
          onChange={onChange}
          help={help}
          problem={problem}
          placeholder={settingWords.placeholder}
        />
      )
  }
}

interface FixedProps {
  readonly view: SettingView
  readonly why: string
  readonly children?: ReactNode
}

/** A setting that cannot be set here, and why. */
function Fixed({ view, why, children }: FixedProps) {
  return (
    <div className={styles['field']}>
      <p>
        <strong className={styles['label']}>{settingWords.titleOf(view.name)}</strong> {settingWords.value(view)}
      </p>
      <p className={styles['note']}>
        <Sentence text={settingWords.help(view.name)} />
      </p>
      <p className={styles['note']}>{why}</p>
      {children}
    </div>
  )
}

interface ByteFieldProps {
  readonly title: string
  /** A number with its unit as Kubernetes writes it, such as `24Gi`; what a person writes may be none. */
  readonly text: string
  readonly help: string
  readonly problem: string | undefined
  /** The unit shown for a number without one, such as 0. */
  readonly usualUnit: ByteUnit
  readonly onChange: (text: string) => void
}

/** A number of bytes, in a unit that is chosen beside it; below it is what that comes to. */
function ByteField({ title, text, help, problem, usualUnit, onChange }: ByteFieldProps) {
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

const kinds: Readonly<Partial<Record<SettingName, ChosenFile>>> = {
  kubeconfig: 'kubeconfig',
  llamaServer: 'executable',
  macmon: 'executable',
  hubTokenFile: 'tokenFile',
  caFile: 'certificates',
}

interface PathFieldProps {
  readonly name: SettingName
  readonly title: string
  readonly text: string
  readonly help: string
  readonly problem: string | undefined
  readonly onChange: (text: string) => void
}

/** A path that is written, or in the app chosen in a dialog. */
function PathField({ name, title, text, help, problem, onChange }: PathFieldProps) {
  const app = useApp()
  const [refusal, setRefusal] = useState<string>()
  const kind = kinds[name]
  const choose = async (what: ChosenFile) => {
    const reply = await app?.chooseFile(what)
    setRefusal(reply?.ok === false ? reply.failure.message : undefined)
    if (reply?.ok === true && reply.value !== null) onChange(reply.value)
  }
  const write = (written: string) => {
    setRefusal(undefined)
    onChange(written)
  }
  return (
    <TextInput
      label={title}
      value={text}
      onChange={write}
      help={help}
      problem={problem ?? refusal}
      placeholder={settingWords.placeholder}
      {...(app !== undefined &&
        kind !== undefined && {
          beside: (
            <Button label={settingWords.chooseFor(title)} onPress={() => void choose(kind)}>
              {settingWords.choose}
            </Button>
          ),
        })}
    />
  )
}
