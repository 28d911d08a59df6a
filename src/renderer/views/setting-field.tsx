import { type ReactNode, useState } from 'react'
import type { ChosenFile } from '../../contract/app-bridge.ts'
import {
  editableRow,
  readSetting,
  type SettingName,
  type SettingView,
  type StartSettingView,
} from '../../contract/settings.ts'
import { Facts } from '../components/blocks.tsx'
import { Button, Command } from '../components/buttons.tsx'
import { ChoiceRow, Slider, SwitchRow, TextInput } from '../components/fields.tsx'
import { NoteGlyph } from '../components/glyph.tsx'
import { Said, Sentence } from '../components/text.tsx'
import { patchOfDraft, textOf, withWritten } from '../settings-draft.ts'
import { useApp, useSnapshot, useTrust, useWindow } from '../store.ts'
import { budgetWords, factsOf, settingWords, valueText, whyFixed } from '../words/settings.ts'
import styles from './setting-field.module.css'

interface SettingRowProps {
  readonly view: SettingView
  /** What a person wrote over it; undefined = nothing, null = the default. */
  readonly written: string | null | undefined
}

/** One setting: its field, or its value where it cannot be set here. */
export function SettingRow({ view, written }: SettingRowProps) {
  const { name, value, from } = view
  const { title, help, more } = editableRow(name)
  const write = useWindow((state) => state.write)
  const fixed = whyFixed(view, useTrust())
  const change = (text: string | null) => write((before) => withWritten(before, view, text))
  return (
    <Row
      id={name}
      title={title}
      isChanged={written !== undefined}
      field={
        fixed !== undefined ? (
          <Fixed title={title} value={valueText(name, value)} help={help} />
        ) : (
          <>
            <Field name={name} text={written === undefined ? textOf(view) : (written ?? '')} onChange={change} />
            {written === null && <Said look="small" text={settingWords.willBeDefault} />}
          </>
        )
      }
    >
      {more !== undefined && <Said text={more} />}
      <Facts facts={factsOf(view)} />
      {fixed === undefined && from === 'person' && written !== null && (
        <div>
          <Button label={settingWords.defaultOf(title)} onPress={() => change(null)}>
            {settingWords.useDefault}
          </Button>
        </div>
      )}
      {fixed !== undefined && <Said text={fixed.why} />}
      {fixed?.line !== undefined && <Command text={fixed.line} copyLabel={settingWords.copyLine(title)} />}
    </Row>
  )
}

interface StartRowProps {
  readonly view: StartSettingView
  /** The app's start file; undefined if the agent is started with flags. */
  readonly startFile: string | undefined
}

/** A setting that counts only as the agent is started with it: its value, and what states another. */
export function StartRow({ view, startFile }: StartRowProps) {
  const { name, title, help, more, value, none = 'none', flag } = view
  const line = startFile === undefined ? flag : view.line
  return (
    <Row id={name} title={title} field={<Fixed title={title} value={value === '' ? none : value} help={help} />}>
      {more !== undefined && <Said text={more} />}
      <Said text={settingWords.stated(line !== undefined, startFile)} />
      {line !== undefined && <Command text={line} copyLabel={settingWords.copyLine(title)} />}
    </Row>
  )
}

interface RowProps {
  readonly id: string
  readonly title: string
  readonly isChanged?: boolean
  readonly field: ReactNode
  /** What few want to know, once the row is opened. */
  readonly children: ReactNode
}

function Row({ id, title, isChanged = false, field, children }: RowProps) {
  const isGoal = useWindow(({ goal }) => goal?.id === id)
  return (
    <div id={id} className={styles['row']} data-changed={isChanged} data-found={isGoal}>
      {field}
      <details className={styles['about']}>
        <summary className={styles['opener']} aria-label={settingWords.about(title)}>
          <NoteGlyph />
        </summary>
        <div className={styles['aboutText']}>{children}</div>
      </details>
    </div>
  )
}

interface FixedProps {
  readonly title: string
  readonly value: string
  readonly help: string
}

const Fixed = ({ title, value, help }: FixedProps) => (
  <>
    <p className={styles['fixed']}>
      <strong className={styles['label']}>{title}</strong>
      <span className={styles['value']}>
        <Sentence text={value} />
      </span>
    </p>
    <Said look="small" text={help} />
  </>
)

interface FieldProps {
  readonly name: SettingName
  readonly text: string
  readonly onChange: (text: string) => void
}

function Field({ name, text, onChange }: FieldProps) {
  const { kind, title, help, choices = {} } = editableRow(name)
  switch (kind) {
    case 'switch':
      return <SwitchRow title={title} help={help} isOn={text === 'on'} onChange={(on) => onChange(on ? 'on' : 'off')} />
    case 'choice':
      return <ChoiceRow title={title} help={help} words={choices} value={text} onChange={onChange} />
    case 'fraction':
      return (
        <>
          <WrittenField name={name} text={text} onChange={onChange} />
          <MemorySlider text={text} onChange={onChange} />
        </>
      )
    default:
      return <WrittenField name={name} text={text} onChange={onChange} />
  }
}

const chosenFor: Readonly<Partial<Record<SettingName, ChosenFile>>> = {
  kubeconfig: 'kubeconfig',
  hubTokenFile: 'tokenFile',
  caFile: 'certificates',
}

/** A value that is written; a path may be chosen in a dialog of the app too. */
function WrittenField({ name, text, onChange }: FieldProps) {
  const { kind, title, help } = editableRow(name)
  const app = useApp()
  const [refusal, setRefusal] = useState<string>()
  const read = kind === 'bytes' ? readSetting(kind, text) : undefined
  const bytes = read?.ok === true ? Number(read.value) : 0
  const file = kind === 'executable' ? 'executable' : chosenFor[name]
  const isWrong = patchOfDraft({ [name]: text }).problems.length > 0
  const write = (written: string) => {
    setRefusal(undefined)
    onChange(written)
  }
  const choose = async (what: ChosenFile) => {
    const reply = await app?.chooseFile(what)
    if (reply?.ok === false) setRefusal(reply.failure.message)
    else if (typeof reply?.value === 'string') write(reply.value)
  }
  return (
    <TextInput
      label={title}
      value={text}
      onChange={write}
      help={bytes > 0 ? `${settingWords.isBytes(bytes)} ${help}` : help}
      problem={isWrong ? settingWords.problem(name) : refusal}
      placeholder={settingWords.placeholder}
      beside={
        app !== undefined &&
        file !== undefined && (
          <Button label={settingWords.chooseFor(title)} onPress={() => void choose(file)}>
            {settingWords.choose}
          </Button>
        )
      }
    />
  )
}

/** Hundredths of all memory; 0 would mean automatic. */
const stops = Array.from({ length: 100 }, (_, index) => (index + 1) / 100)

/** How much of this machine's memory models may hold; nothing while its size is not known. No text or 0 = automatic. */
function MemorySlider({ text, onChange }: Omit<FieldProps, 'name'>) {
  const { totalBytes, budgetBytes = 0, gpuLimitBytes } = useSnapshot(({ memory }) => memory) ?? {}
  if (totalBytes === undefined) return null
  const written = Number(text)
  const fraction = Math.min(1, written > 0 ? written : budgetBytes / totalBytes)
  return (
    <>
      <Slider
        label={budgetWords.slider}
        stops={stops}
        // As a stop is written, so that 0.29 is not just below its own.
        value={Math.round(100 * fraction) / 100}
        text={budgetWords.share(fraction, totalBytes)}
        onChange={(stop) => onChange(String(stop))}
      />
      <Said look="small" text={budgetWords.limits(totalBytes, gpuLimitBytes)} />
    </>
  )
}
