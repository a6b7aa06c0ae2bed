// The generated code has this annotation, which is in no JDK since version 11.
package javax.annotation;

public @interface Generated {
  String[] value();

  String comments() default "";
}
